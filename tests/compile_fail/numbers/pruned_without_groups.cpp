// expect: weft: pruned(config, kept) asks a configuration of one's own for groups_by_layer() and with_groups(groups), as llama_config has them
#include <weft/nn/prune_heads.hpp>
using namespace weft;

struct own_config {
  std::vector<std::int64_t> heads_of{8, 8};
#ifdef WRONG
#else
  std::vector<std::int64_t> groups_by_layer() const { return heads_of; }
  own_config with_groups(const std::vector<std::int64_t>& groups) const { return {groups}; }
#endif
};

own_config program(const kept_heads& kept) { return pruned(own_config{}, kept); }
