# THIS FILE IS GENERATED FROM PADDLEPADDLE SETUP.PY
#
full_version    = '2.2.2'
major           = '2'
minor           = '2'
patch           = '2'
rc              = '0'
cuda_version    = '11.2'
cudnn_version   = '8.1'
istaged         = True
commit          = 'x'
with_mkl        = 'ON'
