"""The machinery of the command line: what an option is, how words and variables are read, how help is written.

It knows no particular option: those stand in `stoker.settings` (honoured) and `stoker.inert` (not).
"""
