"""Services that Steadyhand provides to agents itself."""
