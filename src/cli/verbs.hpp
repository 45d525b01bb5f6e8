// One function for each verb, in a file named after the verb.
#pragma once

#include "cli/verb.hpp"

namespace berth::cli {

Result<int> run_overview(const Context& context);
Result<int> run_ls(const Context& context);
Result<int> run_ps(const Context& context);
Result<int> run_doctor(const Context& context);
Result<int> run_env(const Context& context);
Result<int> run_help(const Context& context);
Result<int> run_run(const Context& context);
Result<int> run_lease(const Context& context);
Result<int> run_jobs(const Context& context);
Result<int> run_why(const Context& context);
Result<int> run_logs(const Context& context);
Result<int> run_stacks(const Context& context);
Result<int> run_wait(const Context& context);
Result<int> run_cancel(const Context& context);
Result<int> run_resize(const Context& context);
Result<int> run_trace(const Context& context);
Result<int> run_hold(const Context& context);
Result<int> run_release(const Context& context);
Result<int> run_report(const Context& context);
Result<int> run_edit(const Context& context);
Result<int> run_rerun(const Context& context);
Result<int> run_drain(const Context& context);
Result<int> run_undrain(const Context& context);
Result<int> run_serve(const Context& context);
Result<int> run_exporter(const Context& context);
Result<int> run_history(const Context& context);
Result<int> run_diff(const Context& context);
Result<int> run_usage(const Context& context);
Result<int> run_health(const Context& context);
Result<int> run_alerts(const Context& context);
Result<int> run_top(const Context& context);
Result<int> run_bench(const Context& context);
Result<int> run_plan(const Context& context);
Result<int> run_compare(const Context& context);
Result<int> run_setup(const Context& context);
Result<int> run_slurm(const Context& context);
Result<int> run_container(const Context& context);
Result<int> run_guard(const Context& context);
Result<int> run_k8s(const Context& context);
Result<int> run_function(const Context& context);
Result<int> run_sim(const Context& context);

/// Runs `berth env` if --format is that of a recipe: pip, conda or dockerfile.
Result<int> print_recipe(const Context& context);

/// The error E0002 for an unknown verb, with a "did you mean".
[[nodiscard]] Error unknown_verb(const std::string& word);

}  // namespace berth::cli
