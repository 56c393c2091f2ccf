"""The vendors' APIs: how a request and an answer are written and read, on the client's side and on the server's."""
