// Api: implements docs/api.md. Some answers are delayed until the condition they wait for is true.
#pragma once

#include <list>
#include <map>
#include <set>
#include <vector>

#include "output/jobs_json.hpp"
#include "serve/execution.hpp"
#include "serve/server.hpp"
#include "system/process.hpp"

namespace berth::serve {

class Api {
 public:
  /// `admin_gids`: members of these groups may do what root may.
  Api(Execution& execution, const std::vector<std::uint32_t>& admin_gids)
      : execution_(execution), admin_gids_(admin_gids) {}

  /// Executes a call. Changes are answered by answer_all(), or before the next read-only call.
  void act(const Call& call, const Answer& answer);
  /// Writes all changes to the journal in one step, then sends the answers.
  void answer_all();
  /// Sends delayed answers about these jobs, and events to listeners.
  void tell(const std::set<model::JobId>& changed);
  /// Sends a heartbeat, so that listeners and proxies keep the connection open.
  void beat();

 private:
  void act_on(model::JobId id, std::string_view what, const Call& call, const Answer& answer);
  void submit(const Call& call, const Answer& answer);
  void list(const Call& call, const Answer& answer);
  void listen(const Call& call, const Answer& answer);
  void tell_listeners(const std::set<model::JobId>& changed);
  void show(model::JobId id, const Call& call, const Answer& answer);
  void show_array(model::JobId id, const Call& call, const Answer& answer);
  void keep_waiting(model::JobId id, const Call& call, const Answer& answer);
  void outlook(model::JobId id, const Answer& answer);
  void log(model::JobId id, const Call& call, const Answer& answer);
  void report(model::JobId id, const Call& call, const Answer& answer);
  void drain(bool drained, const Call& call, const Answer& answer);
  void change(model::JobId id, std::string_view what, const Call& call, const Answer& answer);
  void rerun(model::JobId id, const Call& call, const Answer& answer);
  [[nodiscard]] Status change_running(model::JobId id, std::string_view what, const Call& call);
  [[nodiscard]] Status change_one(model::JobId id, std::string_view what, const Call& call);
  [[nodiscard]] Status change_array(const std::set<model::JobId>& jobs, std::string_view what,
                                    const Call& call);
  [[nodiscard]] output::ShownJob shown(const model::Job& job, const Call& call) const;

  struct Waiting {
    Call call;  // the body is left empty
    Answer answer;
  };
  [[nodiscard]] static Waiting asker(const Call& call, const Answer& answer) {
    return {{call.method, call.path, call.query, "", call.peer}, answer};
  }
  [[nodiscard]] bool is_admin(const Call& call) const;
  [[nodiscard]] broker::Caller caller_of(const Call& call) const;
  Execution& execution_;
  const std::vector<std::uint32_t>& admin_gids_;
  mutable system::UserNames users_{"/etc"};
  struct Changed {
    model::JobId id = 0;  // 0: all jobs
    Waiting who;
  };
  std::vector<Changed> changed_;
  std::multimap<model::JobId, Waiting> waiting_;
  void forget_listeners();
  std::list<Waiting> listeners_;
  std::uint64_t events_ = 0;
  std::size_t look_through_at_ =
      64;  // check for disconnected clients at this number of delayed answers
};

}  // namespace berth::serve
