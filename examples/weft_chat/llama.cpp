// Conversations with models of Llama's, and of its kin.
#include "talk.hpp"

namespace weft_chat {
void talk_to_llama(const settings& s, std::atomic<bool>& stop) { talk_to<weft::llama>(s, stop); }
}  // namespace weft_chat
