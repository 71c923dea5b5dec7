'''A docstring.'''
names = "a" 'b' """c
d"""
_private = dict(hidden=True)
words = {
    "names": names, "raw": r"\d+\.py", "escapes": "tab\t\x41\u00e9\101",
    "looks": ["1", "null", "true", "1e5", "~", "", " x ", "a: b", "#"],
}
