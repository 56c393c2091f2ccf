"""A run as HTML: parts that draw records, one style sheet, one script. The report and the viewer are made of them."""
