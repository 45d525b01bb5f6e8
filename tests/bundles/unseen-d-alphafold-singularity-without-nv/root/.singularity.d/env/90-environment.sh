#!/bin/sh
export PATH=/opt/alphafoldenv/bin:$PATH
export LD_LIBRARY_PATH=/opt/alphafoldenv/lib:$LD_LIBRARY_PATH
