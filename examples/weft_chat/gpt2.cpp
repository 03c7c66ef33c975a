// Conversations with models of GPT-2's.
#include "talk.hpp"

namespace weft_chat {
void talk_to_gpt2(const settings& s, std::atomic<bool>& stop) { talk_to<weft::gpt2>(s, stop); }
}  // namespace weft_chat
