#include <berth/berth.h>

int berth_opencl_launch_run(berth_opencl_launch* launch) {
  const int problem =
      launch->enqueue(launch->queue, launch->kernel, static_cast<unsigned>(launch->axes), nullptr,
                      launch->total, launch->group, 0, nullptr, &launch->event);
  return problem != 0 ? problem : launch->flush(launch->queue);
}
