__version__ = '1.0.0'
debug = False
cuda = '10.0.130'
git_version = '91e95be6b6634e3c21072dfcd661146728694326'
hip = None
