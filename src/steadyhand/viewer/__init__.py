"""The run store in a browser: a server on loopback, pages made of the report's parts, and labels."""
