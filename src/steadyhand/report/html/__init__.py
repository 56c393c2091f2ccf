"""A run as HTML: parts that render records, one style sheet, one script, used by the report and the viewer."""
