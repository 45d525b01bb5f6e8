// `berth plan gpu`: lists the GPUs that can hold a model, cheapest first. `berth plan cost`:
// compares renting a GPU with buying it. Every price has its date. An unknown price is not guessed.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/picture.hpp"
#include "cli/plan_request.hpp"
#include "output/json_writer.hpp"
#include "output/svg.hpp"
#include "output/table.hpp"
#include "output/words.hpp"
#include "plan/prices.hpp"

namespace berth::cli {
namespace {

using plan::Terms;

constexpr std::size_t kMostRows = 15, kMostPriceFile = std::size_t{1} << 20U;
constexpr double kDaysPerMonth = 365.25 / 12;

std::chrono::sys_days today() {
  return std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
}

Result<plan::Prices> prices_for(const Arguments& arguments) {
  const auto path = arguments.value("--prices");
  if (!path) return plan::known_prices();
  const auto document = read_file(*path, kMostPriceFile);
  if (!document) return document.error();
  return plan::read_prices(*document, *path);
}

std::string date_of(const plan::PriceSource& source) {
  const auto age = plan::age_days(source.as_of, today());
  if (!age) return std::string(tr("not known"));
  if (*age <= plan::kOldPriceDays) return printable(source.as_of);
  return text("{}: old", printable(source.as_of));
}

std::string money(double amount) {
  return amount < 100 ? fmt::format("{:.2f}", amount) : fmt::format("{:.0f}", amount);
}

/// An upper limit of tokens per second. Memory bandwidth limits inference; arithmetic limits
/// training. Real programs are slower.
std::optional<double> most_tokens_per_second(const plan::Gpu& gpu, const plan::Model& model,
                                             const plan::Work& work, const plan::Memory& memory) {
  if (model.is_of_images()) return std::nullopt;
  if (work.task == plan::Task::kInference) {
    // A decoding step makes one token for each sequence. It reads the active weights and the cache
    // once, so memory bandwidth limits it.
    if (!gpu.memory_bytes_per_second || memory.weights <= 0) return std::nullopt;
    return work.batch * *gpu.memory_bytes_per_second / (memory.weights + memory.kv_cache);
  }
  const bool is_fp32 = work.precision == plan::Precision::kFp32;
  const auto speed = is_fp32 ? gpu.fp32_flop_per_second : gpu.fp16_flop_per_second;
  if (!speed || model.params <= 0) return std::nullopt;
  // Operations per parameter and token: 2 in the forward pass and 4 in the backward pass. LoRA
  // needs no gradients of the weights, which saves 2.
  const bool is_full = work.task == plan::Task::kTrain || work.task == plan::Task::kFinetune;
  const double operations = (is_full ? 6.0 : 4.0) + (work.checkpointing ? 2.0 : 0.0);
  return work.gpus * *speed / (operations * model.params);
}

struct Candidate {
  plan::Gpu gpu;
  std::optional<plan::Rent> rent;
  const plan::Card* card = nullptr;
  std::optional<double> tokens_per_second;
};

bool is_cheaper(const Candidate& one, const Candidate& other) {
  const double unknown = INFINITY;
  const auto rent = [&](const Candidate& c) { return c.rent ? c.rent->per_hour : unknown; };
  const auto card = [&](const Candidate& c) { return c.card ? c.card->price : unknown; };
  if (rent(one) != rent(other)) return rent(one) < rent(other);
  if (card(one) != card(other)) return card(one) < card(other);
  return one.gpu.memory_bytes < other.gpu.memory_bytes;
}

void write_source(output::JsonWriter& json, const plan::PriceSource& source) {
  json.text_field("as_of", source.as_of);
  json.field("age_days", plan::age_days(source.as_of, today()));
  json.text_field("source", source.url);
}

void write_rent(output::JsonWriter& json, const std::optional<plan::Rent>& rent) {
  if (!rent) return json.value(nullptr);
  json.open('{');
  json.field("provider", rent->instance->provider);
  json.field("instance", rent->instance->name);
  json.field("region", rent->instance->region);
  json.field("instances", static_cast<int>(rent->instances));
  json.field("gpus", static_cast<int>(rent->instance->gpus * rent->instances));
  json.field("per_hour", rent->per_hour);
  write_source(json, rent->instance->source);
  json.close('}');
}

void write_card(output::JsonWriter& json, const plan::Card* card) {
  if (card == nullptr) return json.value(nullptr);
  json.open('{');
  json.field("price", card->price);
  write_source(json, card->source);
  json.close('}');
}

std::string instance_of(const plan::Rent& rent) {
  std::string out = printable(rent.instance->provider) + " " + printable(rent.instance->name);
  if (rent.instances > 1) out = fmt::format("{:.0f} × ", rent.instances) + out;
  return out;
}

/// The number of GPUs to pay for. Only whole instances can be rented, so this may be more than the
/// needed number.
double gpus_of(const plan::Rent& rent) {
  return rent.instance->gpus * rent.instances;
}

/// Three cells: the price per hour, the number of GPUs, and the price per hour of one GPU.
std::vector<output::Cell> price_cells(const std::optional<plan::Rent>& rent) {
  if (!rent) return {"-", "-", "-"};
  const double gpus = gpus_of(*rent);
  return {money(rent->per_hour), fmt::format("{:g}", gpus), money(rent->per_hour / gpus)};
}

/// Adds the columns for price_cells().
void add_price_columns(std::vector<output::Column>& columns, const std::string& currency) {
  columns.push_back({fmt::format("{}/h", currency), true});
  columns.push_back({std::string(tr("× GPU")), true});
  columns.push_back({std::string(tr("each")), true});
}

/// A line that names the columns that do not fit the terminal; "" if all fit.
std::string without(const std::vector<std::string>& dropped, const output::Terminal& terminal) {
  std::string out;
  if (dropped.empty()) return out;
  const std::string all = text("not shown: {} (--json has all)", output::join(dropped, ", "));
  for (const std::string& line : output::wrap(all, terminal.width)) out += line + "\n";
  return out;
}

std::string old_price_note() {
  return text(
             "old: the price is older than {} days. No price here is live; --prices FILE uses "
             "yours.",
             plan::kOldPriceDays) +
         "\n";
}

struct RentRow {
  const char* key;
  const char* title;
  Terms terms;
};
constexpr RentRow kRentRows[] = {{"on_demand", msgid("rent on demand"), Terms::kOnDemand},
                                 {"reserved", msgid("rent with reservation"), Terms::kReserved},
                                 {"spot", msgid("rent spot, may be stopped"), Terms::kSpot}};

std::string candidates_json(const plan::Model& model, const plan::Work& work,
                            const plan::Prices& prices, double safe,
                            const std::vector<Candidate>& candidates) {
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.text_field("model", model.name);
  json.field("task", plan::name(work.task));
  json.field("precision", precision_of(model, work));
  json.field("batch", static_cast<std::uint64_t>(work.batch));
  json.field("seq", static_cast<std::uint64_t>(work.seq));
  json.field("safe_bytes", static_cast<std::uint64_t>(std::min(safe, 1e18)));
  json.field("currency", prices.currency);
  json.rows("gpus", candidates, [&](const Candidate& one) {
    json.field("name", one.gpu.name);
    json.field("memory_bytes", static_cast<std::uint64_t>(one.gpu.memory_bytes));
    json.field("power_watts", one.gpu.power_watts);
    json.field("least_power_watts", one.gpu.least_power_watts);
    json.field("most_tokens_per_second", one.tokens_per_second);
    json.key("rent");
    write_rent(json, one.rent);
    json.key("card");
    write_card(json, one.card);
  });
  json.close('}');
  return json.finish();
}

/// The power of a GPU as text: "450 W", or a range for a laptop's GPU: "80–150 W".
std::string power_of(const plan::Gpu& gpu) {
  if (!gpu.power_watts) return "-";
  if (!gpu.least_power_watts) return fmt::format("{:.0f} W", *gpu.power_watts);
  return fmt::format("{:.0f}–{:.0f} W", *gpu.least_power_watts, *gpu.power_watts);
}

std::string candidates_text(const plan::Prices& prices, const std::string& assumed, double safe,
                            const std::vector<Candidate>& candidates,
                            const output::Terminal& terminal) {
  if (candidates.empty()) {
    return assumed + "\n" + text("No single GPU of the catalogue holds it.") + "\n";
  }
  std::vector<output::Column> columns = {{std::string(tr("GPU"))},
                                         {std::string(tr("memory")), true},
                                         {std::string(tr("power")), true, 0, 6},
                                         {std::string(tr("tokens/s")), true, 0, 3}};
  add_price_columns(columns, prices.currency);
  columns.push_back({std::string(tr("instance")), false, 0, 4});
  columns.push_back({std::string(tr("date")), false, 0, 1});
  columns.push_back({text("{} to buy", prices.currency), true, 0, 2});
  columns.push_back({std::string(tr("date")), false, 0, 5});
  output::Table table(std::move(columns));
  for (std::size_t i = 0; i < candidates.size() && i < kMostRows; ++i) {
    const Candidate& one = candidates[i];
    std::vector<output::Cell> row = {
        one.gpu.name, show_bytes(static_cast<std::uint64_t>(one.gpu.memory_bytes)),
        power_of(one.gpu),
        one.tokens_per_second ? fmt::format("{:.0f}", *one.tokens_per_second) : "-"};
    for (output::Cell& cell : price_cells(one.rent)) row.push_back(std::move(cell));
    row.emplace_back(one.rent ? instance_of(*one.rent) : "-");
    row.emplace_back(one.rent ? date_of(one.rent->instance->source) : "-");
    row.emplace_back(one.card != nullptr ? money(one.card->price) : "-");
    row.emplace_back(one.card != nullptr ? date_of(one.card->source) : "-");
    table.add(std::move(row));
  }
  std::vector<std::string> dropped;
  const std::string rows = table.render(terminal, &dropped);
  std::string out = assumed + "\n" +
                    text("GPUs with at least {} (the safe bound), cheapest first:",
                         show_bytes(static_cast<std::uint64_t>(std::min(safe, 1e18)))) +
                    "\n" + rows + without(dropped, terminal);
  if (candidates.size() > kMostRows)
    out += text("{} more: --json", candidates.size() - kMostRows) + "\n";
  out += text("{}/h is for all GPUs of the instance, as only whole instances can be rented.",
              prices.currency) +
         "\n";
  out +=
      tr("tokens/s: the upper limit by the vendor's figures for bandwidth and arithmetic; programs "
         "reach less.");
  return out + "\n" + old_price_note();
}

struct Cost {
  plan::Gpu gpu;
  plan::Prices prices;
  double count = 1, hours_per_month = 0, months = 0;
  // share of the time on spot instances that is lost because of interruptions
  double lost_share = 0;
  // The share of the purchase price for which the cards can be sold after the last month.
  double resale_share = 0;
  plan::Purchase purchase;
  // points into `prices`; null if the price of this GPU is not known
  const plan::Card* card = nullptr;
  bool has_own_price = false, has_price = false, has_power = false;
};

/// The rent for a month. If `lost_share` of the time on spot instances is lost, the work takes 1 /
/// (1 - lost_share) times as long.
double rent_of_a_month(const Cost& cost, const plan::Rent& rent, Terms terms) {
  const double share = terms == Terms::kSpot ? 1 - cost.lost_share : 1;
  return rent.per_hour * cost.hours_per_month / share;
}

std::optional<double> break_even(const Cost& cost, const std::optional<plan::Rent>& rent,
                                 Terms terms) {
  if (!cost.has_price || !rent) return std::nullopt;
  return plan::break_even_months(cost.purchase, rent_of_a_month(cost, *rent, terms));
}

/// The cost of owning the cards for a month: their loss of value plus the power they use.
double owning_of_a_month(const Cost& cost) {
  return cost.purchase.price * (1 - cost.resale_share) / cost.months +
         cost.purchase.power_per_month;
}

std::string cost_json(const Cost& cost) {
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("gpu", cost.gpu.name);
  json.field("gpus", static_cast<int>(cost.count));
  json.field("hours_per_month", cost.hours_per_month);
  json.field("months", cost.months);
  json.field("currency", cost.prices.currency);
  json.key("rent");
  json.open('{');
  for (const RentRow& way : kRentRows) {
    const auto rent = plan::cheapest(cost.prices, cost.gpu.name, cost.count, way.terms);
    json.key(way.key);
    write_rent(json, rent);
    json.field(fmt::format("{}_per_month", way.key),
               rent ? std::optional(rent_of_a_month(cost, *rent, way.terms)) : std::nullopt);
    json.field(fmt::format("{}_break_even_months", way.key), break_even(cost, rent, way.terms));
  }
  json.close('}');
  json.key("buy");
  json.open('{');
  json.field("price", cost.has_price ? std::optional(cost.purchase.price) : std::nullopt);
  json.field("power_per_month",
             cost.has_power ? std::optional(cost.purchase.power_per_month) : std::nullopt);
  json.field("per_month", cost.has_price ? std::optional(owning_of_a_month(cost)) : std::nullopt);
  json.key("card");
  write_card(json, cost.has_own_price ? nullptr : cost.card);
  json.close('}');
  json.close('}');
  return json.finish();
}

/// The source of a price: "aws p5.48xlarge, us-east-1, 2026-07-20: old".
std::string origin_of(const plan::Rent& rent) {
  const plan::Instance& instance = *rent.instance;
  const std::string region = instance.region.empty() ? "" : printable(instance.region) + ", ";
  return fmt::format("{}, {}{}", instance_of(rent), region, date_of(instance.source));
}

/// The table row for one way to rent. Adds the source of its price to `notes`.
std::vector<output::Cell> rent_row(const Cost& cost, const RentRow& way, std::string& notes) {
  const auto rent = plan::cheapest(cost.prices, cost.gpu.name, cost.count, way.terms);
  if (!rent) return {std::string(tr(way.title)), std::string(tr("not known"))};
  const double month = rent_of_a_month(cost, *rent, way.terms);
  const auto even = break_even(cost, rent, way.terms);
  std::vector<output::Cell> row = {std::string(tr(way.title))};
  for (output::Cell& cell : price_cells(rent)) row.push_back(std::move(cell));
  row.emplace_back(money(month));
  row.emplace_back(money(month * cost.months));
  row.emplace_back(even             ? text("{:.1f} months", *even)
                   : cost.has_price ? std::string(tr("never"))
                                    : "-");
  notes += text("{}: {}", tr(way.title), origin_of(*rent)) + "\n";
  if (gpus_of(*rent) > cost.count)
    notes += "  " +
             text("GPUs in the instance: {:g}, needed: {:g}; only whole instances can be rented",
                  gpus_of(*rent), cost.count) +
             "\n";
  return row;
}

std::string cost_text(const Cost& cost, const output::Terminal& terminal) {
  std::vector<output::Column> columns = {{std::string(tr("option"))}};
  add_price_columns(columns, cost.prices.currency);
  columns.push_back({text("a month"), true});
  columns.push_back({text("{:.0f} months", cost.months), true, 0, 2});
  columns.push_back({std::string(tr("buying pays off after")), true, 0, 1});
  output::Table table(std::move(columns));
  std::string notes;
  for (const RentRow& way : kRentRows) table.add(rent_row(cost, way, notes));
  const std::string months =
      cost.has_price ? money(cost.months * owning_of_a_month(cost)) : std::string(tr("not known"));
  table.add({std::string(tr("buy")), "-", "-", "-",
             cost.has_price ? money(owning_of_a_month(cost)) : "-", months, "-"});
  std::vector<std::string> dropped;
  const std::string rows = table.render(terminal, &dropped);
  std::string out = text("{} × {}, {:.0f} hours a month, in {}", cost.count, cost.gpu.name,
                         cost.hours_per_month, cost.prices.currency) +
                    "\n" + rows + without(dropped, terminal) + notes;
  if (!cost.has_price)
    out += tr("The price of this GPU is not known: --card-price PRICE."), out += "\n";
  else
    out += text("{}: {}", tr("buy"),
                cost.has_own_price ? std::string(tr("your price")) : date_of(cost.card->source)) +
           "\n";
  out += cost.has_power
             ? tr("Buying: cards and their power. Not included: server, space, cooling, work.")
             : tr("Buying: cards only (--power-price adds power). Not included: server, "
                  "space, cooling, work.");
  return out + "\n" + old_price_note();
}

/// A price as text: "63.30 USD/h (8 GPUs, 7.91 each),"
std::string price_words(const plan::Rent& rent, const std::string& currency) {
  const double gpus = gpus_of(rent);
  const std::string each =
      gpus > 1 ? " (" + text("{:g} GPUs, {} each", gpus, money(rent.per_hour / gpus)) + ")" : "";
  return fmt::format("{} {}/h{},", money(rent.per_hour), currency, each);
}

std::string cost_svg(const Cost& cost) {
  std::vector<output::CostLine> lines;
  std::vector<std::string> notes;
  const plan::Purchase& buy = cost.purchase;
  if (cost.has_price)
    lines.push_back({std::string(tr("buy")), buy.price, buy.power_per_month, {}});
  else
    notes.push_back(text("{}: {}", tr("buy"), tr("not known")));
  for (const RentRow& way : kRentRows) {
    const auto rent = plan::cheapest(cost.prices, cost.gpu.name, cost.count, way.terms);
    if (!rent) {
      notes.push_back(text("{}: {}", tr(way.title), tr("not known")));
      continue;
    }
    lines.push_back({std::string(tr(way.title)), 0, rent_of_a_month(cost, *rent, way.terms),
                     break_even(cost, rent, way.terms)});
    notes.push_back(text("{}: {}", tr(way.title),
                         fmt::format("{} {}", price_words(*rent, printable(cost.prices.currency)),
                                     origin_of(*rent))));
  }
  if (cost.has_price)
    notes.push_back(
        text("{}: {}", tr("buy"),
             cost.has_own_price ? std::string(tr("your price")) : date_of(cost.card->source)));
  notes.emplace_back(
      cost.has_power
          ? tr("Buying: cards and their power. Not included: server, space, cooling, work.")
          : tr("Buying: cards only (--power-price adds power). Not included: server, "
               "space, cooling, work."));
  return output::cost_lines_svg(
      text("{} × {}: renting against buying", cost.count, printable(cost.gpu.name)),
      text("{}, {:.0f} hours of use a month; a dot is the month from which buying costs less",
           printable(cost.prices.currency), cost.hours_per_month),
      tr("months"), cost.months, lines, notes);
}

}  // namespace

Result<double> amount(const Arguments& arguments, const char* option, double usual, double most,
                      bool may_be_0, const char* hint) {
  const auto given = arguments.value(option);
  if (!given) return usual;
  double number = 0;
  const auto [end, problem] = std::from_chars(given->data(), given->data() + given->size(), number);
  const bool is_number = problem == std::errc() && end == given->data() + given->size();
  if (is_number && number <= most && (number > 0 || (may_be_0 && number == 0))) return number;
  return Error{
      ErrorCode::kInvalidArgument, "E0978",
      text("{}: '{}' is not a number above 0 and at most {}", option, printable(*given), most),
      hint};
}

Result<int> plan_gpu(const Context& context) {
  const Arguments& arguments = context.arguments;
  if (arguments.has("--gpu"))
    return Error{ErrorCode::kInvalidArgument, "E0974",
                 text("plan gpu looks at every GPU: leave out --gpu, or use plan fit"),
                 "berth help plan"};
  const auto model = planned_model(arguments);
  if (!model) return model.error();
  if (!model->has_layers() && !model->is_of_images())
    return Error{ErrorCode::kNotFound, "E0971",
                 text("{}: its layers are not known, so its activations are not known either",
                      printable(model->name)),
                 "berth help plan"};
  const auto work = planned_work(arguments, *model);
  if (!work) return work.error();
  const auto prices = prices_for(arguments);
  if (!prices) return prices.error();
  const plan::Memory memory = plan::memory_of(*model, *work);
  const double safe = plan::safe_bytes(memory, *work);
  std::vector<Candidate> candidates;
  for (plan::Gpu& gpu : plan::gpus()) {
    if (gpu.memory_bytes < safe) continue;
    Candidate& one = candidates.emplace_back();
    one.rent = plan::cheapest(*prices, gpu.name, work->gpus, Terms::kOnDemand);
    one.card = plan::card_of(*prices, gpu.name);
    one.tokens_per_second = most_tokens_per_second(gpu, *model, *work, memory);
    one.gpu = std::move(gpu);
  }
  std::stable_sort(candidates.begin(), candidates.end(), is_cheaper);
  context.out(context.json ? candidates_json(*model, *work, *prices, safe, candidates)
                           : candidates_text(*prices, assumptions(*model, *work), safe, candidates,
                                             context.out_terminal));
  return 0;
}

Result<int> plan_cost(const Context& context) {
  const Arguments& arguments = context.arguments;
  const auto named = arguments.value("--gpu");
  if (!named || arguments.positional.size() != 1)
    return Error{ErrorCode::kInvalidArgument, "E0974", text("say which GPU: --gpu NAME"),
                 "berth plan cost --gpu L4"};
  const plan::GpuCommand command{"berth plan cost"};
  auto gpu = *named == "here" ? gpu_here(context, command) : plan::find_gpu(*named, command);
  if (!gpu) return std::move(gpu).error();
  if (*named == "here") {
    auto known = gpu->pci_ids.empty()
                     ? plan::find_gpu(gpu->name)
                     : plan::find_gpu(plan::GpuIds{gpu->pci_ids.front(), {}, gpu->memory_bytes});
    if (known) gpu = std::move(known);
  }
  auto prices = prices_for(arguments);
  if (!prices) return prices.error();
  const auto gpus = amount(arguments, "--gpus", 1, 1024);
  if (!gpus) return gpus.error();
  const auto hours = amount(arguments, "--hours", 24, 24);
  if (!hours) return hours.error();
  const auto months = amount(arguments, "--months", 36, 240);
  if (!months) return months.error();
  const auto power_price = amount(arguments, "--power-price", 0, 1e6, true);
  if (!power_price) return power_price.error();
  const auto card_price = amount(arguments, "--card-price", 0, 1e9);
  if (!card_price) return card_price.error();
  const auto load = amount(arguments, "--load", 100, 100, true);
  if (!load) return load.error();
  const auto resale = amount(arguments, "--resale", 0, 100, true);
  if (!resale) return resale.error();
  const auto lost = amount(arguments, "--lost", 0, 99, true);
  if (!lost) return lost.error();

  Cost cost;
  cost.gpu = std::move(*gpu);
  cost.prices = std::move(*prices);
  cost.count = std::ceil(*gpus);
  cost.hours_per_month = *hours * kDaysPerMonth;
  cost.months = *months;
  cost.lost_share = *lost / 100;
  cost.resale_share = *resale / 100;
  cost.card = plan::card_of(cost.prices, cost.gpu.name);
  cost.has_own_price = arguments.has("--card-price");
  cost.has_price = cost.has_own_price || cost.card != nullptr;
  cost.has_power = arguments.has("--power-price") && cost.gpu.power_watts.has_value();
  if (cost.has_price)
    cost.purchase.price = cost.count * (cost.has_own_price ? *card_price : cost.card->price);
  if (cost.has_power)
    cost.purchase.power_per_month = cost.count * *cost.gpu.power_watts / 1000 *
                                    cost.hours_per_month * *load / 100 * *power_price;
  const auto picture = open_picture(arguments);
  if (!picture) return picture.error();
  if (*picture)
    if (auto written = write_picture(arguments, *picture, cost_svg(cost)); !written)
      return std::move(written).error();
  context.out(context.json ? cost_json(cost) : cost_text(cost, context.out_terminal));
  return 0;
}

}  // namespace berth::cli
