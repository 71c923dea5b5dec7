settings = dict(name="plain")
