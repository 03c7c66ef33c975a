// How the data of operations move where ranks are threads and their memory lies on a device: a backend's queue makes
// what does it. Invariant: the host waits for nothing; an operation runs behind what its members' queues were given
// before they called it, and before what they are given once they have waited for it.
#pragma once

#include <weft/core/requirements.hpp>

#include <cstddef>
#include <memory>

namespace weft {

class queue_ref;
struct comm_call;

/// The data movement of one group's operations, on a device. An operation stands in one of `places` places; what it
/// moves, and with which result, is what threads do in the host's memory. A backend's queue offers it:
/// `std::unique_ptr<device_mover> mover(int members)`, for a group of so many ranks whose queues are of its type. Every
/// function may throw weft::failure.
class device_mover {
 public:
  static constexpr std::size_t places = 32;

  virtual ~device_mover() = default;
  /// Member m calls an operation behind `call.queue`. From m's thread.
  virtual void called(std::size_t place, int m, const comm_call& call) = 0;
  /// All members have called it, and agree: the device is given what it has to move. From one thread at a time.
  virtual void move(std::size_t place) = 0;
  /// What the queue is given from now on runs after the operation. Here and below, move(place) has returned.
  virtual void precede(std::size_t place, const queue_ref& queue) = 0;
  /// Whether the device has done it.
  virtual bool done(std::size_t place) = 0;
  /// Returns when it has.
  virtual void finish(std::size_t place) = 0;
};

/// What makes the movers of a group in place of the queue, for a communicator over threads that moves data by other
/// means. One for each rank of the group.
class mover_maker {
 public:
  /// For the operations that are like this call of its rank's: those of the group, or those of a pair of ranks, of
  /// which the sender is member 0. Who calls first makes it, for all `members`.
  virtual std::unique_ptr<device_mover> mover(const comm_call& call, int members) = 0;

 protected:
  ~mover_maker() = default;
};

}  // namespace weft
