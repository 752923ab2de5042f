"""What "compatible with llama-server" means, as data, and the tools that hold any server to it."""
