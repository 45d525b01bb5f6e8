__MATHCALL_VEC (cospi,, (_Mdouble_ __x));
__MATHCALL_VEC (sinpi,, (_Mdouble_ __x));
__MATHCALL (rsqrt,, (_Mdouble_ __x));
