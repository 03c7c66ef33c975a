// A communicator's life: it is made, does what it is asked for at once or behind its caller's back, and ends when
// nobody is in a call of it any more.
#include "nccl_comm.hpp"

#include <cstdlib>

namespace device::nccl {

std::uint64_t seed() {
  const char* const given = std::getenv("WEFT_DEVICE_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 1;
}
std::condition_variable& changed() {
  static std::condition_variable one;
  return one;
}
planned& failure() {
  static planned one;
  return one;
}
called& count() {
  static called one;
  return one;
}
int& live() {
  static int communicators = 0;
  return communicators;
}
std::string& last_words() {
  static std::string words;
  return words;
}
ncclResult_t refuse(const std::string& sentence) {
  the_device().gpu.find_fault("nccl: " + sentence);
  return ncclInvalidUsage;
}

user::user(held_lock& held, ncclComm_t c) : c_(c), before_(c->inside) {
  const auto self = std::this_thread::get_id();
  if (before_ != std::thread::id{} && before_ != self)
    refuse("two threads use rank " + std::to_string(c->rank) + "'s communicator at once");
  else if (c->state == ncclInProgress && c->asked_by != self && !c->outside)
    refuse("a thread uses rank " + std::to_string(c->rank) + "'s communicator, which is in progress for another");
  c->inside = self;
  static unsigned calls = 0;
  const bool long_one = ++calls % 16 == 0;  // a yield may cost a busy machine's slice
  held.unlock();
  if (long_one) std::this_thread::yield();
  held.lock();
}
user::~user() {
  c_->inside = before_ == std::this_thread::get_id() ? before_ : std::thread::id{};
  changed().notify_all();
}

ncclComm_t make(const ncclConfig_t* config) {
  ncclComm_t const c = new ncclComm;
  c->device = chosen_device();
  c->blocks = !config || config->blocking == NCCL_CONFIG_UNDEF_INT || config->blocking != 0;
  ++live();
  return c;
}
ncclResult_t begin(held_lock& held, ncclComm_t c, std::function<bool()> may, std::function<void(held_lock&)> then) {
  if (c->state == ncclInProgress)
    return refuse("rank " + std::to_string(c->rank) + " calls it while its last call is in progress");
  if (c->state != ncclSuccess) return c->state;
  if (c->blocks) {
    changed().wait(held, may);
    then(held);
    return c->state;
  }
  c->answers = static_cast<int>(mixed(c->in->draw(++c->asked), static_cast<std::uint64_t>(c->rank)) % 4);
  if (c->answers == 0 && may()) return then(held), c->state;
  c->asked_by = std::this_thread::get_id();
  c->state = ncclInProgress, c->may_go_on = std::move(may), c->then = std::move(then);
  return ncclInProgress;
}
void end(held_lock& held, ncclComm_t c) {
  if (c->inside != std::thread::id{})
    refuse("rank " + std::to_string(c->rank) + "'s communicator is ended while a thread uses it");
  if (c->outside) leave_processes(c);
  changed().wait(held, [&] { return c->inside == std::thread::id{} && c->drivers == 0; });
  forget_registered(c);
  if (c->in) c->in->members[static_cast<std::size_t>(c->rank)] = nullptr;
  delete c;
  --live();
}

}  // namespace device::nccl
