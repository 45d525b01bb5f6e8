__version__ = '1.8.0'
debug = False
cuda = '10.2'
hip = None
