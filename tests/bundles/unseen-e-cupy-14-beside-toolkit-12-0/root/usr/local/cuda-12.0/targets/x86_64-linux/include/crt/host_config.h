#if __GNUC__ > 12
#error -- unsupported GNU version! gcc versions later than 12 are not supported!
#endif
