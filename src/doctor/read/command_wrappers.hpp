// Programs that start another program, and those of their options that take a value: in "srun -p
// test python3 a.py", "test" is a value and not the program.
#pragma once

#include <array>
#include <string_view>

namespace berth::doctor {

/// A program that runs the rest of its arguments as a command.
struct Wrapper {
  std::string_view name;
  std::string_view with_value;  // options whose next word is their value, " -n -s "
  int operands = 0;             // number of arguments before the command
  /// The wrapper has too many options to list, so its command begins at the first word that is a
  /// program.
  bool loose = false;
};
inline constexpr std::string_view kOfMpi =
    " -np -n -c -N -H -x -f -wd -wdir -ppn -hosts -host -hostfile -machinefile -map-by -bind-to "
    "-rank-by -iface --np --host --hostfile --machinefile --map-by --bind-to --rank-by --wdir ";
inline constexpr auto kWrappers = std::to_array<Wrapper>({
    {"nohup", "", 0, false},
    {"setsid", "", 0, false},
    {"command", "", 0, false},
    {"exec", " -a ", 0, false},
    {"unbuffer", "", 0, false},
    {"nice", " -n --adjustment ", 0, false},
    {"ionice", " -c -n ", 0, false},
    {"time", " -o -f --output --format ", 0, false},
    {"timeout", " -s -k --signal --kill-after ", 1, false},
    {"stdbuf", " -i -o -e ", 0, false},
    {"taskset", "", 1, false},
    {"chrt", "", 1, false},
    {"numactl",
     " -C -N -m -i -p -P --physcpubind --cpunodebind --membind --interleave --preferred ", 0, true},
    {"srun",
     " -A -B -c -C -d -D -e -G -i -J -L -m -M -n -N -o -p -q -r -S -t -T -w -W -x --account "
     "--chdir --constraint --container-image --container-mounts --cpu-bind --cpus-per-task "
     "--dependency --distribution --error --exclude --export --gpus --gpus-per-node "
     "--gpus-per-task --gres --input --job-name --mem --mem-per-cpu --mem-per-gpu --mpi --nodelist "
     "--nodes --ntasks --ntasks-per-node --output --partition --qos --reservation --time ",
     0, true},
    {"mpirun", kOfMpi, 0, true},
    {"mpiexec", kOfMpi, 0, true},
    {"sudo", " -u -g -h -p -C -D -r -t -T -U --user --group --chdir --host --prompt ", 0, true},
    {"strace", " -o -e -p -P -s -u -a -b -I -O -S -X -E ", 0, true},
    {"xvfb-run", " -n -s -e -f -p -w --server-num --server-args --error-file --auth-file ", 0,
     true},
    {"systemd-run",
     " -p -M -H -E -u --unit --property --setenv --slice --uid --gid --working-directory "
     "--description ",
     0, true},
});
/// Programs that run a command on another machine or in a container, where files and GPUs may
/// differ.
inline constexpr auto kElsewhere = std::to_array<std::string_view>(
    {"docker", "podman", "nerdctl", "kubectl", "apptainer", "singularity", "enroot", "ssh",
     "distrobox", "toolbox", "flatpak", "lxc", "incus"});
/// The options of `berth run` that take a value. cli/help_test.cpp checks that the list is
/// complete.
inline constexpr std::string_view kOfBerthRun =
    " --lang --color --gpus --devices --memory --share --cap --slice --turn --container --engine "
    "--mount --engine-option --cpus --name --isolation --report "
    "--time-limit --grace --signal --checkpoint-signal --priority --or-cpu-after --ranks "
    "--gpus-per-rank --nodes --tee --stdin-rank --retries --backoff --hang-action --hang-timeout "
    "--log-dir --log-limit --after --on-end --array ";

}  // namespace berth::doctor
