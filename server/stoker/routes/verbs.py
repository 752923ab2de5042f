"""HTTP methods of a route that only reads: whoever may GET may ask for the headers alone."""

READ = ["GET", "HEAD"]
