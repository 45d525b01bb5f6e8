// The page's texts: English, Chinese. {} is replaced by a value.
const TEXTS = {
  skip: ["Skip to the content", "跳到正文"], theme: ["Theme", "主题"],
  token: ["Token of this broker", "本机 broker 的令牌"], send: ["Open", "打开"],
  live: ["live", "实时"], lost: ["no connection; trying again", "连接断开，正在重试"],
  refused: ["the token is not the right one", "令牌不对"], needsToken: ["a token is needed", "需要令牌"],
  machine: ["Machine", "机器"], jobs: ["Jobs", "作业"], users: ["Users", "用户"], health: ["Health", "健康"],
  loading: ["Loading…", "正在加载…"], failed: ["Failed: {}", "失败：{}"],

  hostMemory: ["memory", "内存"], partitions: ["MIG partitions", "MIG 分区"], partition: ["partition", "分区"], profile: ["profile", "规格"],
  devices: ["Devices", "设备"], device: ["device", "设备"], processes: ["Processes", "进程"], history: ["History", "历史"],
  use: ["use", "利用率"], memory: ["memory", "显存"], power: ["power", "功率"], temperature: ["temperature", "温度"], clock: ["SM clock", "SM 时钟"],
  gpusBusy: ["GPUs in use", "使用中的 GPU"], gpusUnknown: ["{} not known", "{} 块未知"], ofTotal: ["of {}", "共 {}"],
  jobsNow: ["Jobs running", "运行中的作业"], waitingToo: ["{} waiting", "{} 个排队"], alertsNow: ["Alerts", "告警"], noAlertsNow: ["all quiet", "无告警"],
  noProcesses: ["No process is on a device.", "没有进程在使用设备。"], noKnownProcesses: ["No process is known to be on a device.", "未发现使用设备的进程，但有设备的进程列表读不到。"],
  notListed: ["and {} more", "另有 {} 个"], unknownUsers: ["users not known", "用户未知"], free: ["free", "空闲"],
  graph: ["Use and memory of device {} in the last minutes", "设备 {} 最近几分钟的利用率和显存"],
  job: ["job", "作业"], user: ["user", "用户"], pid: ["pid", "pid"], sm: ["SM", "SM"], cpu: ["CPU", "CPU"], rss: ["host memory", "主机内存"],
  command: ["command", "命令"], age: ["age", "时长"], range: ["Period", "时间范围"], shown: ["Reading", "指标"],
  "1h": ["1 hour", "1 小时"], "24h": ["24 hours", "24 小时"], "7d": ["7 days", "7 天"], "30d": ["30 days", "30 天"], "92d": ["92 days", "92 天"],
  meanMax: ["mean {}, max {}", "平均 {}，最高 {}"], noReadings: ["no readings", "无读数"],
  noHistory: ["No readings are recorded for this period yet.", "这段时间还没有记录。"],
  chartHelp: ["Arrow keys read the values", "用方向键读数"],
  "device ok": ["ok", "正常"], "device degraded": ["degraded", "异常"], "device lost": ["lost", "掉线"], "device asleep": ["asleep", "休眠"],
  "reason nvml:15": ["the driver cannot reach it", "驱动无法访问"], "reason nvml:4": ["no permission", "没有权限"],
  "reason ecc_uncorrected": ["uncorrected memory errors", "不可纠正显存错误"], "reason throttle:hw_thermal": ["slowed by heat", "过热降频"],
  "reason throttle:hw_power_brake": ["slowed by the power supply", "供电降频"],
  "device no answer": ["no answer", "无响应"], "device not checked": ["not checked", "未检查"],

  "job waiting": ["waiting", "排队"], "job held": ["held", "暂缓"], "job running": ["running", "运行"], "job done": ["done", "完成"],
  "job failed": ["failed", "失败"], "job cancelled": ["cancelled", "已取消"], "job lost": ["lost", "丢失"], "job ended": ["ended", "已结束"],
  noJobs: ["No job runs or waits. `berth run --queue -- COMMAND` adds one.", "没有正在运行或排队的作业。用 `berth run --queue -- COMMAND` 添加。"],
  endedJobs: ["Ended in the last day", "一天内结束"], queue: ["Running and waiting", "运行与排队"], what: ["what", "内容"], gpus: ["GPUs", "GPU"],
  time: ["time", "时间"], state: ["state", "状态"], selectJob: ["Select a job to see why it waits, its output and what it used.", "选择一个作业，查看排队原因、输出和用量。"],
  wants: ["{} wanted", "需要 {} 块"], hidden: ["not shown: another user's", "其他用户的作业，不显示"], onCpu: ["CPU", "CPU"],
  newJob: ["New job", "新建作业"], commandLine: ["Command", "命令"], folder: ["Folder", "目录"], nameOptional: ["Name (optional)", "名称（可选）"],
  howManyGpus: ["GPUs (0: CPU)", "GPU 数（0 为 CPU）"], submit: ["Submit", "提交"], loginShell: ["bash runs it with your login profile.", "由 bash 按登录环境执行。"],
  cancel: ["Cancel job", "取消作业"], reallyCancel: ["Press again to cancel", "再按一次确认取消"], hold: ["Hold", "暂缓"], release: ["Release", "恢复排队"], rerun: ["Run again", "重新运行"],
  why: ["Why it waits", "排队原因"], log: ["Output", "输出"], noLog: ["no output yet", "还没有输出"], logCut: ["(earlier output is left out)", "（更早的输出已省略）"], report: ["Report", "报告"],
  submitted: ["submitted", "提交"], started: ["started", "开始"], ended: ["ended", "结束"], timeLimit: ["time limit", "时限"], priority: ["priority", "优先级"],
  exit: ["exit code", "退出码"], signal: ["signal", "信号"], cpuTime: ["CPU time", "CPU 时间"], peakMemory: ["peak host memory", "主机内存峰值"], gpuTime: ["GPU time", "GPU 时间"],
  reason: ["reason", "原因"], logFile: ["file", "文件"], close: ["Close", "关闭"], noSuchJob: ["There is no job {}.", "没有作业 {}。"], array: ["array", "数组"],
  "why nothing": ["It is next, held, or waits for another job.", "下一个就轮到它，或被暂缓，或在等别的作业。"], "why busy": ["No suitable device is free.", "没有合适的空闲设备。"],
  "why reserved": ["A device is free, but reserved for a job that comes first.", "有空闲设备，但已留给排在前面的作业。"],
  "why user_limit": ["Its user has as many devices or running jobs as the settings allow.", "该用户的设备或运行作业数已达上限。"],
  "why pause": ["The pause before its next try is not over.", "下一次尝试前的暂停尚未结束。"],
  "why array_limit": ["As many jobs of its array run as may.", "该数组同时运行的作业数已达上限。"],
  "why journal": ["Nothing starts until the broker can write its journal.", "broker 无法写日志，暂不启动作业。"],
  "why gives_way": ["The broker of all users runs; this one starts nothing.", "全局 broker 在运行，这个 broker 不启动作业。"],
  "why never": ["It would not fit even if every job ended.", "即使所有作业都结束，也放不下它。"],
  before: ["Ahead of it: {}", "排在前面：{}"], fitsAt: ["It could start at {} if nobody else gets anything.", "如果没有别人插入，预计 {} 可以开始。"],

  held: ["GPU-hours held", "占用 GPU 小时"], used: ["used", "实际使用"], idle: ["held without use", "占而未用"], idleShare: ["idle share", "空占比例"], energy: ["energy", "能耗"],
  p95Memory: ["memory, p95", "显存 p95"], asked: ["asked", "申请"], next: ["next time", "下次建议"], wholeGpus: ["whole GPUs", "整张 GPU"], share: ["share", "占比"], noUsage: ["No use of a device is recorded for this period.", "这段时间没有设备使用记录。"],
  rest: ["held, not computing or not known", "占用，未计算或未知"],
  byUser: ["by user", "按用户"], byJob: ["by job", "按作业"], byCommand: ["by program", "按程序"], grouped: ["Sum", "汇总"], unknownShare: ["share not known", "利用率未知"],
  noJob: ["without a job", "不属于作业"], notKnown: ["not known", "未知"],

  alerts: ["Alerts", "告警"], noAlerts: ["No alerts.", "没有告警。"], since: ["since", "开始于"], checks: ["Checks of the devices", "设备检查"], doctor: ["What doctor finds", "doctor 的诊断"],
  critical: ["critical", "严重"], warning: ["warning", "警告"], info: ["info", "提示"], error: ["error", "错误"], fatal: ["fatal", "致命"],
  answers: ["answers", "响应"], memory_errors: ["memory errors", "显存错误"], row_remap: ["row remapping", "行重映射"], throttling: ["throttling", "降频"],
  "check ok": ["ok", "正常"], "check failed": ["failed", "未通过"], "check not checked": ["not checked", "未检查"],
  doctorRuns: ["doctor looks at the machine…", "doctor 正在检查…"], noFindings: ["Doctor finds nothing wrong in the broker's environment.", "doctor 在 broker 的环境中没有发现问题。"],
  notChecked: ["{} rules could not check all they need", "{} 条规则缺少信息，未能检查"], explainedBy: ["because of {}", "由 {} 引起"],
  powerLimit: ["power limit", "功率上限"], uuid: ["UUID", "UUID"], pci: ["PCI address", "PCI 地址"], driver: ["driver", "驱动"], architecture: ["architecture", "架构"],
  sm_active: ["SMs active", "SM 活跃"], tensor_active: ["tensor cores active", "张量核心活跃"], dram_active: ["memory bandwidth", "显存带宽"],
  nvlink: ["NVLink", "NVLink"], links: ["{} of {} links, {} in, {} out", "{}/{} 条链路，收 {}，发 {}"],
  pcie: ["PCIe", "PCIe"], ecc: ["uncorrected memory errors", "不可纠正显存错误"], noSuchDevice: ["There is no device {}.", "没有设备 {}。"], back: ["All devices", "全部设备"], facts: ["Facts", "信息"], numa: ["NUMA node", "NUMA 节点"],
};

export const chinese = (navigator.language || "").startsWith("zh");

/** @param {string} key @param {...(string|number)} values @returns {string} */
export function word(key, ...values) {
  const texts = TEXTS[key];
  let text = texts ? texts[chinese ? 1 : 0] : key;
  for (const value of values) text = text.replace("{}", () => String(value));
  return text;
}

/** A word of the API in the page's language: word of "job running", or the word itself. */
export const wordOf = (kind, value) => (TEXTS[`${kind} ${value}`] ? word(`${kind} ${value}`) : String(value));
