__version__ = '1.12.0a0+2c916ef.nv22.3'
debug = False
cuda = '11.4'
git_version = 'da729a74a0b836a089b7e3b1ea5340b3610a224e'
hip = None
