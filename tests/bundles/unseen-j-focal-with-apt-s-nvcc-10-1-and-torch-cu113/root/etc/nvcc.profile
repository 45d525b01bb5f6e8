TOP              = $(_HERE_)/..

NVVMIR_LIBRARY_DIR = /usr/lib/nvidia-cuda-toolkit/libdevice
