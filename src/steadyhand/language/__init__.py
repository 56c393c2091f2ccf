"""Reading what people write, by rules that say when they do not know."""
