// A folder's weights in several files: the same numbers under any strategy, and never a mixture of old and new; and the
// tokenizer of another folder beside them.
#include <filesystem>

#include <doctest/doctest.h>

#include <weft/io/pretrained.hpp>
#include <weft/weft.hpp>

#include "../said_by.hpp"
#include "../temporary.hpp"

using namespace weft;
using weft_test::said_by;

namespace {

constexpr llama_config small{
    .layers = 3, .hidden = 24, .heads = 4, .kv_heads = 2, .ffn = 40, .vocab = 99, .max_seq = 16};
constexpr std::int64_t table_bytes = 99 * 24 * 4;  // the largest tensors
using whole = strategy<mesh<dp, tp, pp>>;
using sharded = strategy<mesh<dp, tp, pp>, zero3, bf16_mixed>;

// Saves a model whose weights are drawn from this seed.
template <class S>
void save(const std::string& folder, std::int64_t most_bytes, std::uint64_t seed = 1, const degrees& ranks = {},
          const std::string& like = {}) {
  const auto body = [&](context& ctx) {
    llama_config config = small;
    config.norm_eps = 1e-5 * static_cast<double>(seed);  // another config.json
    llama<S> model(ctx, config);
    trainer t(ctx, model);
    save_pretrained(ctx, model, t.store(), folder, dtype::f32, {.like = like, .most_bytes = most_bytes});
  };
  launch<S>(ranks, body, {.seed = seed});
}
// What a folder's weights are in one file, read by one rank.
std::string in_one_file(const std::string& folder) {
  const weft_test::temporary_folder here;
  launch<whole>({}, [&](context& ctx) {
    auto read = llama_from_pretrained<whole>(ctx, folder);
    save_weights(ctx, read.store, here / "one", llama_weight_names);
  });
  return read_file(here / "one");
}
std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) out.insert(entry.path().filename());
  return out;
}
std::set<std::string> indexed(const std::string& folder) {
  std::set<std::string> out{"config.json", "model.safetensors.index.json"};
  const nlohmann::json index = read_json(folder + "/model.safetensors.index.json");
  for (const auto& [tensor, name] : index["weight_map"].items()) out.insert(name.get<std::string>());
  return out;
}
const std::set<std::string> single{"config.json", "model.safetensors"};

}  // namespace

TEST_CASE("several files hold what one does, none more than is asked for but for a tensor that is larger by itself") {
  const weft_test::temporary_folder here;
  save<whole>(here / "one", table_bytes * 100);
  CHECK(names_in(here / "one") == single);
  const std::string one = in_one_file(here / "one");
  for (const std::int64_t most : {table_bytes - 1, table_bytes, table_bytes * 2}) {
    CAPTURE(most);
    const std::string folder = here / std::to_string(most);
    save<whole>(folder, most);
    CHECK(in_one_file(folder) == one);
    const auto files = indexed(folder);
    CHECK(names_in(folder) == files);
    CHECK(files.size() > 4);
    std::uint64_t all = 0;
    for (const std::string& name : files) {
      if (!name.ends_with(".safetensors")) continue;
      const safetensors of(folder + '/' + name);
      std::uint64_t bytes = 0;
      for (const auto& [tensor, at] : of.tensors()) bytes += at.entry->end - at.entry->begin;
      CHECK((bytes <= static_cast<std::uint64_t>(most) || of.tensors().size() == 1));
      all += bytes;
    }
    CHECK(read_json(folder + "/model.safetensors.index.json")["metadata"]["total_size"] == all);
    CHECK(all == static_cast<std::uint64_t>(small.parameters()) * 4);
  }
  const degrees eight{.dp = 2, .tp = 2, .pp = 2}, six{.dp = 3, .tp = 2};
  save<whole>(here / "eight", table_bytes, 1, eight), save<sharded>(here / "six", table_bytes, 1, six);
  for (const char* const name : {"eight", "six"}) {
    CHECK(in_one_file(here / name) == one);
    CHECK(names_in(here / name) == names_in(here / std::to_string(table_bytes)));
  }
}

TEST_CASE("new weights take the place of the old, in however many files these are") {
  const weft_test::temporary_folder here;
  const std::string folder = here / "model";
  std::filesystem::create_directory(folder);
  write_file(folder + "/notes.safetensors", "not the model's");
  std::uint64_t seed = 0;
  // One file, several, as many again, others, one again, one again.
  for (const std::int64_t most : {table_bytes * 100, table_bytes, table_bytes, table_bytes, table_bytes * 3,
                                  table_bytes * 100, table_bytes * 100}) {
    CAPTURE(seed);
    save<sharded>(folder, most, ++seed, {.dp = 2});
    auto files = most == table_bytes * 100 ? single : indexed(folder);
    files.insert("notes.safetensors");
    CHECK(names_in(folder) == files);
    save<whole>(here / "beside", table_bytes * 100, seed);
    CHECK(in_one_file(folder) == in_one_file(here / "beside"));
  }
}

TEST_CASE("where a file can't be written, what was there stays") {
  const weft_test::temporary_folder here;
  const std::string folder = here / "model";
  save<whole>(here / "other", table_bytes);
  const std::string last = *std::prev(names_in(here / "other").end(), 2);  // model-00005-of-00005.safetensors, say
  for (const std::int64_t before : {table_bytes * 100, table_bytes}) {
    save<whole>(folder, before);
    const std::string old = in_one_file(folder), config = read_file(folder + "/config.json");
    // A folder has the name that one of the new files is written under.
    const std::string taken = folder + "/" + last;  // the other name is taken by those of before, or free
    std::filesystem::create_directory(detail::unfinished(taken));
    const std::string said = said_by([&] { save<sharded>(folder, table_bytes, 2, {.dp = 2}); });
    CHECK(said.find(last + ".unfinished can't be written") != std::string::npos);
    CHECK(in_one_file(folder) == old);
    CHECK(read_file(folder + "/config.json") == config);
    CHECK(names_in(folder) == (before == table_bytes ? indexed(folder) : single));
    save<sharded>(folder, table_bytes, 2, {.dp = 2});
    CHECK(in_one_file(folder) != old);
    CHECK(read_file(folder + "/config.json") != config);
    CHECK(names_in(folder) == indexed(folder));
  }
  write_file(folder + "/model.safetensors.index.json", "{");  // nothing that one could go by: it is replaced
  save<whole>(folder, table_bytes);
  CHECK(in_one_file(folder).size() > 10);
  CHECK(said_by([&] { save<whole>(folder, 0); }) == "files of at most 0 bytes hold nothing: most_bytes is 1 or more");
}

TEST_CASE("what a run left that died before it had removed the files of before goes with the next save") {
  const weft_test::temporary_folder here;
  const std::string folder = here / "model", old = here / "old";
  using std::filesystem::copy_options;
  const auto left_behind = [&](std::uint64_t seed) {  // files that no index names any more
    save<whole>(folder, table_bytes * static_cast<std::int64_t>(seed), seed);
    std::filesystem::remove_all(old);
    std::filesystem::copy(folder, old);
  };
  const auto put_back = [&] {  // of those that a run would have removed last
    std::size_t files = 0;
    for (const std::string& name : names_in(old))
      if (detail::is_shard_name(name))
        files += !std::filesystem::exists(folder + '/' + name),
            std::filesystem::copy(old + '/' + name, folder, copy_options::skip_existing);
    CHECK(files > 2);
  };
  // One file or several after several, more or fewer of them.
  const std::int64_t one = table_bytes * 100, most[] = {table_bytes, table_bytes * 2, one};
  for (const std::int64_t second : most)
    for (const std::int64_t third : most) {
      CAPTURE(second);
      CAPTURE(third);
      left_behind(1);
      save<sharded>(folder, second, 2, {.dp = 2});
      put_back();
      write_file(folder + "/weights-00001-of-00077.safetensors.unfinished", "a part");
      write_file(folder + "/model.safetensors.unfinished", "a part");
      write_file(folder + "/model-1-of-2.safetensors", "not the model's");
      save<whole>(here / "beside", one, 2);
      CHECK(in_one_file(folder) == in_one_file(here / "beside"));  // what stayed is passed over
      save<sharded>(folder, third, 3, {.dp = 2});
      auto files = third == one ? single : indexed(folder);
      files.insert("model-1-of-2.safetensors");
      CHECK(names_in(folder) == files);
      save<whole>(here / "beside", one, 3);
      CHECK(in_one_file(folder) == in_one_file(here / "beside"));
    }
}

TEST_CASE("which files are shards is told by the whole name") {
  for (const auto& names : {detail::names_of_files(2, false), detail::names_of_files(1234567, true)})
    for (const std::string& name : {names.front(), names.back(), names.front() + ".unfinished"})
      CHECK(detail::is_shard_name(name));
  for (const char* name : {"model.safetensors", "model-00001-of-00002", "model-0001-of-00002.safetensors",
                           "model-00001-of-0002.safetensors", "my-model-00001-of-00002.safetensors", "model-00001",
                           "model-00001-of-00002.safetensors.index.json", "model-00001of00002.safetensors", "",
                           "model-00001-of-00002-of-00003.safetensors", "weights.safetensors", "00001-of-00002"})
    CHECK_FALSE(detail::is_shard_name(name));
}

TEST_CASE("a file that can't take its name leaves what was there") {
  const weft_test::temporary_folder here;
  const std::string folder = here / "model";
  save<whole>(here / "other", table_bytes, 3);
  const std::string last = *std::prev(names_in(here / "other").end(), 2);
  for (const std::int64_t before : {table_bytes * 100, table_bytes}) {
    std::filesystem::remove_all(folder);
    save<whole>(folder, before);
    const std::string old = in_one_file(folder), config = read_file(folder + "/config.json");
    // After the others have theirs.
    const std::string taken = folder + '/' + (before == table_bytes ? "weights" + last.substr(5) : last);
    std::filesystem::create_directories(taken + "/full");
    const std::string said = said_by([&] { save<sharded>(folder, table_bytes, 2, {.dp = 2}); });
    CHECK(said.find(taken + " can't be written: ") != std::string::npos);
    CHECK(in_one_file(folder) == old);
    CHECK(read_file(folder + "/config.json") == config);
    std::filesystem::remove_all(taken);
    save<sharded>(folder, table_bytes, 2, {.dp = 2});
    CHECK(in_one_file(folder) != old);
    CHECK(names_in(folder) == indexed(folder));
  }
}

TEST_CASE("a file of before that can't be removed is said, and that the new weights are whole") {
  const weft_test::temporary_folder here;
  const std::string folder = here / "model";
  const std::int64_t one = table_bytes * 100;
  save<whole>(here / "other", one, 2);
  const std::string wanted = in_one_file(here / "other");
  const auto after = [&](const std::string& stays, std::int64_t most) {
    std::filesystem::create_directories(folder + '/' + stays + "/full");  // as what isn't empty does
    const std::string said = said_by([&] { save<sharded>(folder, most, 2, {.dp = 2}); });
    CHECK(said.find("the new weights in " + folder + " are whole, and are read") == 0);
    CHECK(said.find("the file " + folder + '/' + stays + " can't be removed: ") != std::string::npos);
    return said;
  };
  save<whole>(folder, table_bytes);
  write_file(folder + "/model.safetensors.index.json",
             R"({"weight_map": {"a": "b.safetensors", "c": "d.safetensors"}})");
  write_file(folder + "/d.safetensors", "");
  CHECK(after("b.safetensors", one).find("of those of before the file") != std::string::npos);
  CHECK(in_one_file(folder) == wanted);
  CHECK(names_in(folder) == std::set<std::string>{"b.safetensors", "config.json", "model.safetensors"});
  std::filesystem::remove_all(folder);
  after("model.safetensors.index.json", one);
  CHECK(in_one_file(folder) == wanted);
  std::filesystem::remove_all(folder);
  CHECK(after("model.safetensors", table_bytes).find("once a file of before is gone: the file") != std::string::npos);
  std::filesystem::remove_all(folder + "/model.safetensors");
  CHECK(in_one_file(folder) == wanted);
  CHECK(names_in(folder) == indexed(folder));
}

namespace {

// A model's folder but for weights, with every kind of file that is taken along.
void make_original(const std::string& folder) {
  std::filesystem::create_directories(folder + "/additional_chat_templates");
  for (const char* const name :
       {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
        "merges.txt", "tokenizer.model", "tokenizer.model.v3", "chat_template.jinja", "generation_config.json",
        "additional_chat_templates/tools.jinja"})
    write_file(folder + '/' + name, std::string("a\0\r\n\xFF ", 6) + name);
  for (const char* const name : {"README.md", "tokenizer.json.unfinished", "model.bin"})
    write_file(folder + '/' + name, "not taken");
  write_file(folder + "/config.json", R"({"vocab_size": 90, "bos_token_id": 7, "eos_token_id": [8, 9]})");
}
std::set<std::string> taken_from(const std::string& folder) {
  auto names = names_in(folder);
  for (const char* const other : {"README.md", "tokenizer.json.unfinished", "model.bin"}) names.erase(other);
  return names;
}

}  // namespace

TEST_CASE(
    "a tokenizer, chat templates and settings of generation are taken along, byte by byte, with the tokens' numbers") {
  const weft_test::temporary_folder here;
  const std::string original = here / "original", folder = here / "model";
  make_original(original);
  const auto check_taken = [&](const std::set<std::string>& weights) {
    auto names = taken_from(original);
    names.insert(weights.begin(), weights.end());
    CHECK(names_in(folder) == names);
    for (const std::string& name : detail::taken_files(original))
      CHECK(read_file(folder + '/' + name) == read_file(original + '/' + name));
    CHECK(detail::taken_files(folder).size() == 11);
    const nlohmann::json config = read_json(folder + "/config.json");
    CHECK(config.at("bos_token_id") == 7);
    CHECK(config.at("eos_token_id") == nlohmann::json{8, 9});
    CHECK_FALSE(config.contains("pad_token_id"));  // transformers takes what it takes there
    CHECK(config.at("vocab_size") == small.vocab);
  };
  save<whole>(folder, table_bytes * 100, 1, {}, original);
  check_taken(single);
  const std::string one = in_one_file(folder);
  save<sharded>(folder, table_bytes, 2, {.dp = 2, .tp = 2}, original);
  check_taken(indexed(folder));
  CHECK(in_one_file(folder) != one);
  // Saved without, what lies there stays, but for what config.json says.
  write_file(folder + "/chat_template.jinja", "of the user's");
  save<whole>(folder, table_bytes * 100);
  CHECK(detail::taken_files(folder).size() == 11);
  CHECK(read_file(folder + "/chat_template.jinja") == "of the user's");
  CHECK(read_json(folder + "/config.json").at("eos_token_id").is_null());
  // Of another tokenizer nothing is left.
  for (const char* const name : {"vocab.json", "merges.txt", "chat_template.jinja"})
    std::filesystem::remove(original + '/' + name);
  std::filesystem::remove_all(original + "/additional_chat_templates");
  save<sharded>(folder, table_bytes * 100, 1, {.dp = 2}, original);
  CHECK(detail::taken_files(folder) == detail::taken_files(original));
  CHECK(detail::taken_files(folder).size() == 7);
  // Like itself: it stays as it is.
  save<whole>(folder, table_bytes * 100, 3, {}, folder);
  CHECK(detail::taken_files(folder) == detail::taken_files(original));
  CHECK(read_file(folder + "/tokenizer.model") == read_file(original + "/tokenizer.model"));
  CHECK(read_json(folder + "/config.json").at("eos_token_id") == nlohmann::json{8, 9});
  // A tokenizer alone says nothing of numbers.
  std::filesystem::remove(original + "/config.json");
  save<whole>(folder, table_bytes * 100, 3, {}, original);
  CHECK(read_json(folder + "/config.json").at("eos_token_id").is_null());
}

TEST_CASE("where nothing can be taken along, or not all, what was there stays") {
  const weft_test::temporary_folder here;
  const std::string original = here / "original", folder = here / "model";
  save<whole>(folder, table_bytes * 100);
  const std::string old = in_one_file(folder), config = read_file(folder + "/config.json");
  const auto refused = [&](const std::string& like) {
    const std::string said = said_by([&] { save<sharded>(folder, table_bytes, 2, {.dp = 2}, like); });
    CHECK(names_in(folder) == single);
    CHECK(in_one_file(folder) == old);
    CHECK(read_file(folder + "/config.json") == config);
    return said;
  };
  CHECK(refused(original) == "the folder " + original +
                                 ", whose tokenizer is to be taken along, isn't there; give a model's folder as "
                                 "\"like\", or leave it out");
  std::filesystem::create_directory(original);
  write_file(original + "/README.md", "");
  CHECK(refused(original).find("has neither a tokenizer's files nor config.json, so there is nothing") !=
        std::string::npos);
  make_original(original);
  const auto says = [&](const char* fields) { write_file(original + "/config.json", fields); };
  says(R"({"vocab_size": 100})");
  CHECK(refused(original) ==
        "the file " + original +
            "/config.json: vocab_size is 100, and has to be 99 at most, as the model that is saved like it has it: its "
            "tokenizer is of another model; give that model's folder");
  says(R"({"eos_token_id": ["</s>"]})");
  CHECK(refused(original).find("eos_token_id is [\"</s>\"], and has to be a token's number, or a list of them") !=
        std::string::npos);
  says("{");
  CHECK(refused(original).find("isn't JSON from its byte 2 on") != std::string::npos);
  says("{}");
  std::filesystem::create_symlink(here / "gone", original + "/vocab.txt");
  CHECK(refused(original).find("vocab.txt can't be read: No such file") != std::string::npos);
  std::filesystem::remove(original + "/vocab.txt");
  // A folder has the name that one of them is written under.
  std::filesystem::create_directory(folder + "/vocab.json.unfinished");
  CHECK(said_by([&] {
          save<sharded>(folder, table_bytes, 2, {.dp = 2}, original);
        }).find("vocab.json.unfinished can't be written") != std::string::npos);
  CHECK(in_one_file(folder) == old);
  CHECK(std::filesystem::remove(folder + "/vocab.json.unfinished"));  // which is no save's
  for (const std::string& name : names_in(folder)) CHECK_FALSE(name.ends_with(".unfinished"));
  // Or the name of one of them, behind others: none of the tokenizer of before has gone.
  write_file(folder + "/added_tokens.json", "of before");
  std::filesystem::create_directories(folder + "/vocab.json/full");
  for (const std::int64_t most : {table_bytes * 100, table_bytes}) {
    CHECK(said_by([&] { save<sharded>(folder, most, 2, {.dp = 2}, original); }) ==
          "the file " + folder + "/vocab.json can't be written: Is a directory; give a regular file");
    CHECK(in_one_file(folder) == old);
    CHECK(read_file(folder + "/added_tokens.json") == "of before");
    CHECK(read_file(folder + "/config.json") == config);
    for (const std::string& name : names_in(folder)) CHECK_FALSE(name.ends_with(".unfinished"));
  }
  std::filesystem::remove_all(folder + "/vocab.json");
  save<sharded>(folder, table_bytes * 100, 2, {.dp = 2}, original);
  CHECK(in_one_file(folder) != old);
}

TEST_CASE("several files into a folder without config.json: where the save fails, it is as it was") {
  const weft_test::temporary_folder here;
  const std::string folder = here / "model", original = here / "original";
  make_original(original);
  const auto fails = [&] {
    std::filesystem::create_directory(folder + "/vocab.json.unfinished");  // written before config.json
    CHECK(said_by([&] {
            save<sharded>(folder, table_bytes, 2, {.dp = 2}, original);
          }).find("vocab.json.unfinished can't be written") != std::string::npos);
    std::filesystem::remove(folder + "/vocab.json.unfinished");
    CHECK_FALSE(detail::is_there(folder + "/config.json"));
    CHECK_FALSE(detail::is_there(folder + "/model.safetensors.index.json"));
    CHECK(detail::taken_files(folder).empty());
    for (const std::string& name : names_in(folder)) CHECK_FALSE(name.ends_with(".unfinished"));
  };
  std::filesystem::create_directory(folder);
  fails();
  // Weights that have no configuration never get the new one: they have another name before it is there.
  save<whole>(here / "other", table_bytes * 100);
  std::filesystem::copy(here / "other/model.safetensors", folder + "/model.safetensors");
  fails();
  CHECK(read_file(folder + "/model.safetensors") == read_file(here / "other/model.safetensors"));
  save<sharded>(folder, table_bytes, 2, {.dp = 2}, original);
  CHECK_FALSE(detail::is_there(folder + "/model.safetensors"));
  CHECK_FALSE(detail::is_there(folder + "/model.safetensors.before"));
  save<whole>(here / "beside", table_bytes, 2);
  CHECK(in_one_file(folder) == in_one_file(here / "beside"));
}

TEST_CASE("a folder that a killed save left gives no tokenizer until it is whole, but to itself") {
  const weft_test::temporary_folder here;
  const std::string folder = here / "model", original = here / "original", config = folder + "/config.json";
  make_original(original);
  const auto renamed = [&](const std::string& from, const std::string& to) {
    std::filesystem::rename(folder + '/' + from, folder + '/' + to);
  };
  const auto refused = [&](const std::string& renames) {
    CHECK(said_by([&] { save<whole>(here / "other", table_bytes * 100, 2, {}, folder); }) ==
          "the file " + config + " isn't there, since a save was killed while it changed the model's files; save the " +
              "model there again, or rename " + renames);
    CHECK_FALSE(detail::is_there(here / "other"));
    save<sharded>(folder, table_bytes * 100, 2, {.dp = 2}, folder);
    CHECK(read_json(config).at("eos_token_id") == nlohmann::json{8, 9});
    CHECK(detail::taken_files(folder) == detail::taken_files(original));
    for (const std::string& name : names_in(folder)) CHECK_FALSE(name.ends_with(".unfinished"));
  };
  save<whole>(folder, table_bytes * 100, 1, {}, original);
  renamed("config.json", "config.json.before");  // killed before its weights had their name
  write_file(folder + "/model.safetensors.unfinished", "");
  write_file(folder + "/config.json.unfinished", "{}");
  write_file(folder + "/vocab.json.unfinished", "of others");
  refused(config + ".before to " + config);
  CHECK(read_file(folder + "/vocab.json") == read_file(original + "/vocab.json"));
  const std::string tools = folder + "/additional_chat_templates/tools.jinja", words = folder + "/vocab.json";
  renamed("config.json", "config.json.unfinished");  // and behind
  renamed("vocab.json", "vocab.json.unfinished");
  renamed("additional_chat_templates/tools.jinja", "additional_chat_templates/tools.jinja.unfinished");
  refused(tools + ".unfinished to " + tools + " and " + words + ".unfinished to " + words + " and " + config +
          ".unfinished to " + config);
  // Before its weights had their name: they go with the next save, which has no tokenizer.
  for (const std::string& path : {tools, words}) write_file(path + ".unfinished", "a part");
  save<whole>(folder, table_bytes * 100);
  CHECK(names_in(folder).contains("vocab.json"));
  for (const std::string& path : {tools, words}) CHECK_FALSE(detail::is_there(path + ".unfinished"));
}
