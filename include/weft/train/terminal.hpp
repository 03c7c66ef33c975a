// What stdout is: a terminal whose lines can be drawn again, and how wide. Invariant: nothing is redrawn, and no escape
// written, where that isn't known to work.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <weft/core/linked.hpp>

#if __has_include(<sys/ioctl.h>)
#include <sys/ioctl.h>
#endif

namespace weft::detail {

/// Whether stdout is a terminal that knows escapes: TERM is set, and isn't "dumb".
WEFT_LINKED bool stdout_can_redraw() {
  const char* const term = std::getenv("TERM");
  return isatty(fileno(stdout)) && term && *term && std::string_view(term) != "dumb";
}

/// The terminal's columns just now; 80 where it doesn't say.
WEFT_LINKED int stdout_columns() {
#ifdef TIOCGWINSZ
  winsize size{};
  if (ioctl(fileno(stdout), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
#endif
  return 80;
}

}  // namespace weft::detail
