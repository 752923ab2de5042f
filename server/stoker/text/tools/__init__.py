"""Tool calls in an answer's text, a module for each way of writing them."""
