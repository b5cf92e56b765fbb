#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string_view>

#include "cli/verb.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/cuda_context.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/base/thread_pool.h"
#include "loadstone/exec/executor.h"
#include "loadstone/format/arrow/plugin.h"
#include "loadstone/format/format.h"
#include "loadstone/format/hdf5_library.h"
#include "loadstone/verify/pd61.h"

namespace loadstone::cli {
namespace {

void add(Arguments&, Options&) {}

/// The bytes after `key` in /proc/meminfo, or -1.
std::int64_t memory_info(std::string_view key) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    std::string digits;
    for (const char c : line.substr(key.size())) {
      if (c >= '0' && c <= '9') digits += c;
    }
    std::int64_t kilobytes = 0;
    return parse_int(digits, kilobytes) ? kilobytes * 1024 : -1;
  }
  return -1;
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// "" when the library opens, else why not.
std::string why_not_open(const char* library) {
  void* handle = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return ::dlerror();
  ::dlclose(handle);
  return "";
}

struct Report {
  Session& session;
  Json checks = Json::array();

  void check(const std::string& name, bool ok, const std::string& detail) {
    checks.push_back({{"name", name}, {"ok", ok}, {"detail", json_text(detail)}});
    std::string label = name;
    if (label.size() < 22) label.resize(22, ' ');
    session.line(cat(ok ? "ok      " : "absent  ", label, " ", printable(detail)));
  }
};

void report_cuda(Report& report) {
  const std::string problem = cuda::driver_problem();
  if (!problem.empty()) return report.check("CUDA driver", false, problem);
  int version = 0;
  cuda::driver()->driver_get_version(&version);
  report.check("CUDA driver", true, cat("for CUDA ", version / 1000, ".", version % 1000 / 10));
  for (int i = 0; i < cuda::device_count(); ++i) {
    const cuda::DeviceInfo& info = cuda::device_info(i);
    try {
      const cuda::MemoryInfo memory = cuda::memory_info(i);
      report.check(cat("cuda:", i), true,
                   cat(info.name, ", ", format_bytes(static_cast<std::int64_t>(memory.free)), " free of ",
                       format_bytes(static_cast<std::int64_t>(memory.total)), ", ", info.uuid));
      const std::string no_kernels = cuda::kernels_problem(i);
      report.check(cat("cuda:", i, " kernels"), no_kernels.empty(), no_kernels.empty() ? "loaded" : no_kernels);
    } catch (const Error& error) {
      report.check(cat("cuda:", i), false, error.message());
    }
  }
}

int run(Session& session) {
  Report report{session};
  report.check("version", true, version());
  report.check("cores", true,
               cat(available_cores(), " (affinity and quota), ", ::sysconf(_SC_NPROCESSORS_ONLN), " online"));
  const std::int64_t total = memory_info("MemTotal:"), available = memory_info("MemAvailable:");
  report.check("memory", total > 0,
               total > 0 ? cat(format_bytes(available), " available of ", format_bytes(total)) : "no /proc/meminfo");
  report.check("page size", true, cat(::sysconf(_SC_PAGESIZE), " bytes"));
  const std::string huge = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const bool huge_on = huge.find("[always]") != std::string::npos || huge.find("[madvise]") != std::string::npos;
  report.check("huge pages", huge_on, huge.empty() ? "not known to this kernel" : huge);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  report.check("open files", true, cat("limit ", files.rlim_cur));
  for (const Format* format : all_formats()) {
    bool found = true;
    const std::string detail = format->name == "hdf5"      ? hdf5::report(found)
                               : format->name == "parquet" ? arrow_plugin_report(found)
                                                           : "built in";
    report.check(cat("format ", format->name), found, detail);
  }
  for (const ExecutorEntry* executor : all_executors()) {
    const std::string reason = executor->available();
    report.check(cat("executor ", executor->name), reason.empty(), reason.empty() ? "can run here" : reason);
  }
  report.check("digest", true, cat("PD61, ", pd61_backend()));
  report_cuda(report);
  const std::string no_cufile = why_not_open("libcufile.so.0");
  report.check("cuFile", no_cufile.empty(), no_cufile.empty() ? "libcufile.so.0 opens" : no_cufile);
  session.json["version"] = version();
  session.json["cores"] = available_cores();
  session.json["memory_bytes"] = total;
  session.json["memory_available_bytes"] = available;
  session.json["checks"] = std::move(report.checks);
  return kGood;
}

}  // namespace

extern const Verb doctor_verb;
const Verb doctor_verb{"doctor", "Say what this machine has, what is absent, and why",
                       "  loadstone doctor\n  loadstone doctor --json\n", add, run};

}  // namespace loadstone::cli
