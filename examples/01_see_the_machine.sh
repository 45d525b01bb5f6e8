#!/bin/sh
# See the machine: its devices, who uses them, and what to do next. Needs no GPU.
set -eu
berth
berth ls
berth ps
