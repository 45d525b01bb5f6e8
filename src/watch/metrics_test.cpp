#include "watch/metrics.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace berth;
using namespace berth::watch;
using model::Absence;

namespace {

Frame sample_frame() {
  Frame frame;
  frame.number = 3;
  frame.snapshot.unix_milliseconds = 1'700'000'000'000;
  frame.snapshot.host.hostname = "box";
  frame.snapshot.driver.state = "ok";
  frame.snapshot.driver.version = "580.95.05";
  model::Device gpu;
  gpu.index = 0;
  gpu.vendor_index = 0;
  gpu.minor_number = 0;
  gpu.kind = model::DeviceKind::kGpu;
  gpu.vendor = model::Vendor::kNvidia;
  gpu.name = "NVIDIA \"H100\"\\";
  gpu.uuid = "GPU-abc";
  gpu.pci_address = "0000:81:00.0";
  gpu.health = model::Health::kOk;
  gpu.readings.utilization_percent = 29.0;
  gpu.readings.memory_total_bytes = std::uint64_t{80} << 30U;
  gpu.readings.memory_used_bytes = std::uint64_t{20} << 30U;
  gpu.readings.power_milliwatts = std::uint64_t{612'500};
  gpu.readings.energy_millijoules = std::uint64_t{1'500};
  gpu.readings.clock_sm_mhz = std::uint64_t{1980};
  gpu.readings.temperature_celsius = Absence::kNotSupported;
  frame.snapshot.devices.push_back(gpu);
  for (const char* command : {"/usr/bin/python3 train.py", "/usr/bin/python3 eval.py"}) {
    model::DeviceProcess process;
    process.device = 0;
    process.host_pid = 4121;
    process.user = "lin";
    process.command = command;
    process.memory_bytes = std::uint64_t{1} << 30U;
    process.sm_percent = 20.0;
    frame.snapshot.processes.push_back(process);
  }
  return frame;
}

bool has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("readings are in base units, and absent ones have no series") {
  const std::string text = render_metrics(sample_frame(), {});
  const std::string labels = "{device=\"0\",uuid=\"GPU-abc\"} ";
  CHECK(has(text, "berth_device_utilization_ratio" + labels + "0.29"));
  CHECK(has(text, "berth_device_memory_used_bytes" + labels + "21474836480"));
  CHECK(has(text, "berth_device_power_watts" + labels + "612.5"));
  CHECK(has(text, "berth_device_energy_joules_total" + labels + "1.5"));
  CHECK(has(text, "berth_device_clock_sm_hertz" + labels + "1980000000"));
  CHECK(text.find("berth_device_temperature_celsius") == std::string::npos);
  CHECK(text.find("name=\"NVIDIA \\\"H100\\\"\\\\\"") != std::string::npos);
}

TEST_CASE("OpenMetrics has units and an end mark, and names counters without _total") {
  MetricsOptions options;
  options.exposition = Exposition::kOpenMetrics;
  const std::string text = render_metrics(sample_frame(), options);
  CHECK(has(text, "# TYPE berth_device_energy_joules counter"));
  CHECK(has(text, "# UNIT berth_device_energy_joules joules"));
  CHECK(has(text, "# TYPE berth_device info"));
  CHECK(text.ends_with("# EOF\n"));
}

TEST_CASE("a device with an unreadable process list is not one without processes") {
  Frame frame = sample_frame();
  const std::string labels = "{device=\"0\",uuid=\"GPU-abc\"} ";
  CHECK(has(render_metrics(frame, {}), "berth_device_processes_known" + labels + "1"));
  frame.snapshot.processes.clear();
  frame.snapshot.devices[0].processes_unknown = Absence::kFailed;
  CHECK(has(render_metrics(frame, {}), "berth_device_processes_known" + labels + "0"));
}

TEST_CASE("processes are listed by user, job and program, and only on request") {
  CHECK(render_metrics(sample_frame(), {}).find("berth_process_") == std::string::npos);
  MetricsOptions options;
  options.processes = 10;
  const std::string text = render_metrics(sample_frame(), options);
  CHECK(has(text,
            "berth_process_memory_bytes{device=\"0\",uuid=\"GPU-abc\",user=\"lin\","
            "program=\"python3\"} 2147483648"));
  CHECK(text.find("4121") == std::string::npos);
  CHECK(text.find("train.py") == std::string::npos);
}

TEST_CASE("an ended process leaves no series") {
  Frame frame = sample_frame();
  frame.snapshot.processes.clear();
  MetricsOptions options;
  options.processes = 10;
  CHECK(render_metrics(frame, options).find("user=\"lin\"") == std::string::npos);
}

TEST_CASE("a device that does not answer is down and has no current readings") {
  Frame frame = sample_frame();
  frame.snapshot.devices[0].health = model::Health::kNoAnswer;
  set_all_absent(frame.snapshot.devices[0].readings, Absence::kNoAnswer);
  const std::string text = render_metrics(frame, {});
  CHECK(has(text, "berth_device_up{device=\"0\",uuid=\"GPU-abc\"} 0"));
  CHECK(text.find("berth_device_throttled{") == std::string::npos);
  CHECK(text.find("berth_device_degraded{") == std::string::npos);
  CHECK(text.find("berth_device_utilization_ratio") == std::string::npos);
}

TEST_CASE("a device has at most forty series") {
  Frame frame = sample_frame();
  frame.snapshot.processes.clear();
#define BERTH_ROW(type, member) frame.snapshot.devices[0].readings.member = type{1};
  BERTH_DEVICE_READINGS(BERTH_ROW)
#undef BERTH_ROW
  auto totals = std::make_shared<XidTotals>();
  totals->has_kernel_log = true;
  frame.xid_totals = totals;
  const std::string text = render_metrics(frame, {});
  int series = 0;
  for (std::size_t at = text.find("uuid=\"GPU-abc\""); at != std::string::npos;
       at = text.find("uuid=\"GPU-abc\"", at + 1))
    ++series;
  CHECK(series <= 40);
  CHECK(series >= 30);
}

TEST_CASE("Xids are counted from 0, once for both sources, and have the time of the last") {
  Frame frame = sample_frame();
  // Nobody reports Xids on this machine, neither NVML nor the kernel log.
  CHECK(render_metrics(frame, {}).find("xid") == std::string::npos);
  auto totals = std::make_shared<XidTotals>();
  totals->add({"0000:81:00.0", model::kXidsReported, 0}, 1000);
  frame.xid_totals = totals;
  MetricsOptions options;
  options.severity_of_xid = [](int code) { return code == 79 ? "critical" : "info"; };
  const std::string labels = "device=\"0\",uuid=\"GPU-abc\"";
  const auto has = [&](const std::string& line) {
    return render_metrics(frame, options).find(line + "\n") != std::string::npos;
  };
  CHECK(has("berth_device_xid_errors_total{" + labels + ",severity=\"critical\"} 0"));
  totals->add({"0000:81:00.0", 79, 900}, 1000);  // not counted, because the daemon started at 1000
  CHECK(has("berth_device_xid_errors_total{" + labels + ",severity=\"critical\"} 0"));
  CHECK(has("berth_device_xid_last_timestamp_seconds{" + labels +
            ",xid=\"79\",severity=\"critical\"} 0.9"));
  totals->add({"0000:81:00.0", 79, 5000}, 1000);
  totals->add({"0000:81:00", 79, 5500}, 1000);  // the event of the line above, from the kernel log
  totals->add({"0000:81:00", 79, 9000}, 1000);
  totals->add({"0000:99:00", 79, 9000}, 1000);
  CHECK(has("berth_device_xid_errors_total{" + labels + ",severity=\"critical\"} 2"));
  CHECK(has("berth_device_xid_errors_total{" + labels + ",severity=\"info\"} 0"));
  CHECK(has("berth_device_xid_last_timestamp_seconds{" + labels +
            ",xid=\"79\",severity=\"critical\"} 9"));
  options.dialect = Dialect::kNvidiaSmi;
  CHECK(has("nvidia_smi_xid_errors_total{uuid=\"abc\",xid=\"79\"} 2"));
  options.dialect = Dialect::kDcgm;
  CHECK(render_metrics(frame, options).find("DCGM_FI_DEV_XID_ERRORS{gpu=\"0\"") !=
        std::string::npos);
}

TEST_CASE("each event of a source counts, whatever its time, and the larger count is exported") {
  XidTotals totals;
  const auto count = [&] { return totals.devices.at("0000:81:00").at(79).count(); };
  for (const std::int64_t at : {5000, 5500, 6000}) totals.add({"0000:81:00.0", 79, at}, 1000);
  CHECK(count() == 3);
  totals.add({"0000:81:00", 79, 15'500}, 1000);  // the kernel's clock is 10 s off
  CHECK(count() == 3);
  totals.add({"0000:81:00.0", 79, 2000}, 1000);  // a new event: the clock was set back
  CHECK(count() == 4);
  for (int i = 0; i < 4; ++i) totals.add({"0000:81:00", 79, 16'000}, 1000);
  CHECK(count() == 5);
}

TEST_CASE("every metric names a reading that exists, and its unit") {
  std::set<std::string_view> readings{"memory_free_bytes"};
  model::DeviceReadings none;
  model::for_each_reading(none, [&](std::string_view name, auto&) { readings.insert(name); });
  for (const Dialect dialect : {Dialect::kBerth, Dialect::kDcgm, Dialect::kNvidiaSmi})
    for (const ReadingMetric& metric : metrics_of(dialect)) {
      CAPTURE(metric.name);
      CHECK(readings.contains(metric.reading));
      CHECK(metric.name.find(metric.unit) != std::string_view::npos);
      if (dialect == Dialect::kBerth) CHECK(metric.name.ends_with("_total") == metric.is_counter);
    }
}

TEST_CASE("the dialect of DCGM has its names, units and both spellings of the host") {
  MetricsOptions options;
  options.dialect = Dialect::kDcgm;
  const std::string text = render_metrics(sample_frame(), options);
  CHECK(has(text,
            "DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-abc\",pci_bus_id=\"00000000:81:00.0\","
            "device=\"nvidia0\",modelName=\"NVIDIA \\\"H100\\\"\\\\\",Hostname=\"box\","
            "hostname=\"box\",DCGM_FI_DRIVER_VERSION=\"580.95.05\"} 20480"));
  CHECK(text.find("\nDCGM_FI_DEV_GPU_UTIL{") != std::string::npos);
  CHECK(text.find("berth_") == std::string::npos);
}

TEST_CASE("the dialect of nvidia_gpu_exporter has its names, and no prefix of the uuid") {
  MetricsOptions options;
  options.dialect = Dialect::kNvidiaSmi;
  const std::string text = render_metrics(sample_frame(), options);
  CHECK(has(text, "nvidia_smi_utilization_gpu_ratio{uuid=\"abc\"} 0.29"));
  CHECK(text.find("nvidia_smi_gpu_info{uuid=\"abc\",name=") != std::string::npos);
}

TEST_CASE("the format follows what Prometheus accepts") {
  CHECK(exposition_for("") == Exposition::kText);
  CHECK(exposition_for("*/*") == Exposition::kText);
  CHECK(exposition_for("text/html") == Exposition::kText);
  CHECK(exposition_for("application/openmetrics-text;version=1.0.0,text/plain;q=0.5") ==
        Exposition::kOpenMetrics);
  CHECK(exposition_for("application/openmetrics-text;q=0.2, text/plain;version=0.0.4;q=0.9") ==
        Exposition::kText);
}

TEST_CASE("memory without a process has a series, except where the processes are not known") {
  Frame frame = sample_frame();
  const std::string name = "berth_device_memory_without_process_bytes";
  const std::string labels = "{device=\"0\",uuid=\"GPU-abc\"} ";
  CHECK(has(render_metrics(frame, {}), name + labels + "0"));
  frame.snapshot.unattributed = {{0, 4096, "zombie", {}}};
  CHECK(has(render_metrics(frame, {}), name + labels + "4096"));
  frame.snapshot.unattributed[0].cause = "not_reported";
  CHECK_FALSE(render_metrics(frame, {}).find(name + "{") != std::string::npos);
  frame.snapshot.unattributed.clear();
  frame.snapshot.devices[0].processes_unknown = Absence::kNoPermission;
  CHECK_FALSE(render_metrics(frame, {}).find(name + "{") != std::string::npos);
}

TEST_CASE("MIG partitions have series in every dialect") {
  Frame frame = sample_frame();
  for (const std::uint32_t instance : {0U, 1U}) {
    model::Partition partition;
    partition.index = instance;
    partition.name = "MIG 1c.3g.40gb";
    partition.uuid = "MIG-" + std::to_string(instance);
    partition.gpu_instance = 2;
    partition.compute_instance = instance;
    partition.memory_total_bytes = std::uint64_t{40} << 30U;
    partition.memory_used_bytes = std::uint64_t{1} << 30U;
    frame.snapshot.devices[0].partitions.push_back(partition);
  }
  const std::string own = render_metrics(frame, {});
  CHECK(has(own,
            "berth_partition_memory_used_bytes{device=\"0\",uuid=\"GPU-abc\","
            "partition=\"1\"} 1073741824"));
  CHECK(has(own,
            "berth_partition_info{device=\"0\",uuid=\"GPU-abc\",partition=\"0\","
            "partition_uuid=\"MIG-0\",profile=\"1c.3g.40gb\",gpu_instance=\"2\","
            "compute_instance=\"0\"} 1"));
  MetricsOptions options;
  options.dialect = Dialect::kNvidiaSmi;
  const std::string smi = render_metrics(frame, options);
  CHECK(has(smi,
            "nvidia_smi_mig_info{uuid=\"abc\",mig_uuid=\"1\",gpu_instance_id=\"2\","
            "compute_instance_id=\"1\",profile=\"1c.3g.40gb\"} 1"));
  const std::string used = "nvidia_smi_mig_memory_used_bytes{uuid=\"abc\",gpu_instance_id=\"2\"}";
  CHECK(smi.find(used) != std::string::npos);
  // Only one series, because the compute instances share the memory.
  CHECK(smi.find(used) == smi.rfind(used));
  options.dialect = Dialect::kDcgm;
  const std::string dcgm = render_metrics(frame, options);
  CHECK(dcgm.find("GPU_I_PROFILE=\"1c.3g.40gb\",GPU_I_ID=\"2\"} 1024\n") != std::string::npos);
}

TEST_CASE("containers of Kubernetes are named with their devices, by uuid or by a claim's name") {
  Frame frame = sample_frame();
  MetricsOptions options;
  options.pods = {{"GPU-abc", "lab", "train", "main"}, {"GPU-abcd", "lab", "other", "main"}};
  CHECK(has(render_metrics(frame, options),
            "berth_device_pod_info{device=\"0\",uuid=\"GPU-abc\",namespace=\"lab\",pod=\"train\","
            "container=\"main\"} 1"));
  CHECK(render_metrics(frame, options).find("other") == std::string::npos);
  options.dialect = Dialect::kDcgm;
  const std::string labels = "namespace=\"lab\",pod=\"train\",container=\"main\"} ";
  CHECK(render_metrics(frame, options).find(labels + "29\n") != std::string::npos);
  // Two containers have shares of one GPU. So a value of the whole GPU gets the labels of neither
  // container.
  options.pods = {{"gpu-abc-s0", "lab", "a", "main"}, {"gpu-abc-s1", "lab", "b", "main"}};
  CHECK(render_metrics(frame, options).find("pod=") == std::string::npos);
  options.dialect = Dialect::kBerth;
  const std::string both = render_metrics(frame, options);
  CHECK(both.find("pod=\"a\"") != std::string::npos);
  CHECK(both.find("pod=\"b\"") != std::string::npos);
  options.pods.clear();
  CHECK(render_metrics(frame, options).find("pod_info") == std::string::npos);
}

TEST_CASE("a job has series on each of its devices, and none of a value that is partly unknown") {
  Frame frame = sample_frame();
  for (model::DeviceProcess& process : frame.snapshot.processes) process.job = 7;
  const std::string labels = "{device=\"0\",uuid=\"GPU-abc\",job_id=\"7\",user=\"lin\"} ";
  CHECK(has(render_metrics(frame, {}), "berth_job_memory_bytes" + labels + "2147483648"));
  CHECK(has(render_metrics(frame, {}), "berth_job_utilization_ratio" + labels + "0.4"));
  frame.snapshot.processes[0].sm_percent = Absence::kFailed;
  const std::string text = render_metrics(frame, {});
  CHECK(text.find("berth_job_utilization_ratio{") == std::string::npos);
}

TEST_CASE("the utilization of jobs and users is what the guard measured, where it did") {
  Frame frame = sample_frame();
  for (model::DeviceProcess& process : frame.snapshot.processes) {
    process.job = 7;
    process.sm_percent = 0.0;  // the driver reports 0 %, but the guard has measured more
    process.guard_percent = 30;
  }
  MetricsOptions options;
  options.processes = 10;
  const std::string text = render_metrics(frame, options);
  const std::string device = "_utilization_ratio{device=\"0\",uuid=\"GPU-abc\",";
  CHECK(has(text, "berth_job" + device + "job_id=\"7\",user=\"lin\"} 0.6"));
  CHECK(has(text, "berth_user" + device + "user=\"lin\"} 0.6"));
  CHECK(text.find("berth_process" + device) != std::string::npos);
  CHECK(text.find("\"} 0\nberth_process" + device) == std::string::npos);
}
