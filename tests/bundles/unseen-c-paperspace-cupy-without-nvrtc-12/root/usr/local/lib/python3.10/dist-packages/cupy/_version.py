__version__ = '13.0.0'
