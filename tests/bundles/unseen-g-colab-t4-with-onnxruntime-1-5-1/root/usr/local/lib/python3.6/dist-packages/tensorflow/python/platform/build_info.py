# Auto-generated module providing information about the build.
import collections

build_info = collections.OrderedDict([('cuda_version', '10.1'), ('cudnn_version', '7'), ('is_cuda_build', True), ('is_rocm_build', False)])
