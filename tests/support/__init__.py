"""What the tests share: stand-ins for other vendors' services, sample records, and trials to test parts in."""
