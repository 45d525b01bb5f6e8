package_name = 'onnxruntime'
__version__ = '1.23.1'
