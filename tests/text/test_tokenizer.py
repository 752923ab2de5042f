"""The tokenizer against llama-server's recordings and SentencePiece itself."""

import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from stoker.core.errors import StartError
from stoker.models.gguf_file import read_header
from stoker.text.endings import end_ids
from stoker.text.tokenizer import Tokenizer, from_directory, from_gguf, from_source

TEXTS = (
    "The capital of France is",
    "12345 hello  world\n\n\tdef f(x): 😀é漢字 don't WON'T 3.14",
    " leading and trailing ",
    "",
    "\n",
    "a\u0300 ﷺ ½ x² \u00a0end",
)


# --- small vocabularies -------------------------------------------------------------------------


def _bpe(**changes: object) -> dict[str, object]:
    """Letters, a space, two merges; a control, a user-defined, an unknown, an unused and an ending token."""
    tokens = [*"abcdefgh", "Ġ", "ab", "Ġab", "Ċ", "<|ctl|>", "<user>", "<unk>", "<unused>", "<|im_end|>"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * 12 + [3, 4, 2, 5, 4],
        "tokenizer.ggml.merges": ["a b", "Ġ ab"],
        "tokenizer.ggml.bos_token_id": 12,
        "tokenizer.ggml.eos_token_id": 12,
        **{f"tokenizer.ggml.{key}": value for key, value in changes.items()},
    }


def test_special_text_is_a_token_only_where_it_is_parsed() -> None:
    tokenizer = from_gguf(_bpe(tokens=[*_texts(_bpe())[:-1], "<"], token_type=[1] * 12 + [3, 4, 2, 5, 1]))
    assert tokenizer.encode("ab<|ctl|>", add_special=False, parse_special=True) == [9, 12]
    assert 12 not in tokenizer.encode("ab<|ctl|>", add_special=False, parse_special=False)


def test_user_defined_text_is_always_a_token() -> None:
    tokenizer = from_gguf(_bpe())
    for parse in (True, False):
        assert tokenizer.encode("ab<user> ab", add_special=False, parse_special=parse) == [9, 13, 10]


def test_control_tokens_have_no_text_unless_specials_are_rendered() -> None:
    tokenizer = from_gguf(_bpe())
    assert tokenizer.decode([10, 12, 13, 14, 15, 11]) == b" ab<|ctl|><user><unk>\n"
    assert tokenizer.decode([10, 12, 13, 14, 15, 11], special=False) == b" ab<user>\n"
    assert [tokenizer.piece(id, special=False) for id in (12, 14)] == [b"", b""]


def test_an_ending_token_is_hidden_and_ends_whatever_type_the_file_gives_it() -> None:
    tokenizer = from_gguf(_bpe())
    assert tokenizer.end_ids == {12, 16}
    assert tokenizer.piece(16) == b"<|im_end|>"
    assert tokenizer.piece(16, special=False) == b""


def test_bos_and_eos_are_added_where_the_file_says_so() -> None:
    assert from_gguf(_bpe()).encode("ab", add_special=True, parse_special=True) == [9]
    asked = from_gguf(_bpe(add_bos_token=True, add_eos_token=True, eos_token_id=16))
    assert asked.adds_bos
    for parse in (True, False):
        assert asked.encode("ab", add_special=True, parse_special=parse) == [12, 9, 16]
        assert asked.encode("ab", add_special=False, parse_special=parse) == [9]
    assert asked.encode("", add_special=True, parse_special=True) == [12, 16]


def test_llama3_files_add_bos_and_take_whole_words_by_default() -> None:
    tokens = [*"abcdefg", "cab", *_texts(_bpe())[8:]]
    tokenizer = from_gguf(_bpe(pre="llama-bpe", tokens=tokens))
    assert tokenizer.adds_bos
    assert tokenizer.encode("cab", add_special=False, parse_special=True) == [7]
    assert from_gguf(_bpe(tokens=tokens)).encode("cab", add_special=False, parse_special=True) == [2, 9]


def test_without_bos_and_eos_their_texts_are_empty() -> None:
    metadata = _bpe()
    del metadata["tokenizer.ggml.bos_token_id"], metadata["tokenizer.ggml.eos_token_id"]
    tokenizer = from_gguf(metadata)
    assert (tokenizer.bos, tokenizer.eos, tokenizer.bos_text, tokenizer.eos_text) == (None, None, "", "")
    assert not tokenizer.adds_bos


def test_ids_outside_the_vocabulary_are_an_index_error() -> None:
    tokenizer = from_gguf(_bpe())
    for id in (-1, tokenizer.vocab):
        with pytest.raises(IndexError):
            tokenizer.piece(id)


def test_every_byte_is_spelt_and_an_odd_character_stands_for_itself() -> None:
    from stoker.text import pieces

    assert sorted(pieces.ALPHABET.values()) == list(range(256))
    alphabet = {byte: character for character, byte in pieces.ALPHABET.items()}
    text = "".join(alphabet[byte] for byte in "é😀\x00 ".encode())
    assert pieces.byte_level(text) == "é😀\x00 ".encode()
    assert pieces.byte_level("a漢Ġ") == "a漢 ".encode()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"pre": "nonesuch"}, "'nonesuch' is not supported; supported are .*llama-bpe.*qwen2.*smollm"),
        ({"model": "rwkv"}, "'rwkv' is not supported"),
        ({"tokens": []}, "no vocabulary"),
        ({"merges": []}, "no merges"),
        ({"merges": ["a z"]}, "cannot be used"),
        ({"merges": ["ab"]}, "cannot be used"),
        ({"token_type": [1, 1]}, "2 entries for 17 tokens"),
    ],
)
def test_a_vocabulary_that_cannot_be_used_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(StartError, match=says):
        from_gguf(_bpe(**changes))


def test_a_file_without_token_types_and_with_an_empty_token_is_read() -> None:
    metadata = _bpe(tokens=[*_texts(_bpe())[:-1], ""])
    del metadata["tokenizer.ggml.token_type"]
    tokenizer = from_gguf(metadata)
    assert tokenizer.piece(16) == b"[EMPTY_16]"
    assert tokenizer.piece(12, special=False) == b""


def test_a_bad_special_id_is_ignored() -> None:
    assert from_gguf(_bpe(bos_token_id=999)).bos is None


def _texts(metadata: dict[str, object]) -> list[str]:
    texts: Any = metadata["tokenizer.ggml.tokens"]
    return list(texts)


@pytest.mark.parametrize(
    ("pre", "words"),
    [
        ("smollm", ["1", "2", "3", "4", " x", "'s", "  ", " y", "\n", "\n", "Z"]),
        ("gpt-2", ["1234", " x", "'s", "  ", " y", "\n", "\n", "Z"]),
        ("llama-bpe", ["123", "4", " x", "'s", "  ", " y", "\n\n", "Z"]),
        ("qwen2", ["1", "2", "3", "4", " x", "'s", "  ", " y", "\n\n", "Z"]),
        ("qwen35", ["1", "2", "3", "4", " x", "'s", "  ", " y", "\n\n", "Z"]),
        ("tekken", ["1", "2", "3", "4", " x", "'s", "  ", " y", "\n\n", "Z"]),
        ("lfm2", ["123", "4", " x", "'s", "  ", " y", "\n\n", "Z"]),
        ("default", ["123", "4", " x", "'", "s", "  ", " y", "\n", "\n", "Z"]),
        ("deepseek-v3", ["123", "4", " x", "'s", "  ", " y", "\n\n", "Z"]),
    ],
)
def test_text_is_cut_into_words_by_the_named_rule(pre: str, words: list[str]) -> None:
    from stoker.text.pieces import byte_level
    from stoker.text.pretokenizers import rule, splitter

    cut = splitter(rule(pre)).pre_tokenize_str("1234 x's   y\n\nZ")
    assert [byte_level(word).decode() for word, _ in cut] == words


def test_endings_are_found_by_text() -> None:
    ids = {"<|endoftext|>": 1, "<|im_end|>": 2, "word": 3, "<reponame>": 4, "<|repo_name|>": 5, "<eos>": 6}
    assert end_ids(ids, frozenset({3})) == {1, 2, 3, 5, 6}
    channels = {"<|end|>": 1, "<|return|>": 2, "<|call|>": 3}
    assert end_ids(channels, frozenset()) == {2, 3}
    assert end_ids({"<|end|>": 1}, frozenset()) == {1}


# --- SentencePiece ------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[True, False], ids=["space-prefix", "no-prefix"])
def spm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, object]]:
    """A SentencePiece BPE model trained here, and what llama.cpp's converter would write for it."""
    folder = tmp_path_factory.mktemp("spm")
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(f"the cat {n} sat on the mat and said: hello there, {n * 7} cats" for n in range(300)))
    sentencepiece.SentencePieceTrainer.Train(
        input=str(corpus),
        model_prefix=str(folder / "m"),
        model_type="bpe",
        vocab_size=340,
        byte_fallback=True,
        add_dummy_prefix=request.param,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "m.model"))
    count = model.GetPieceSize()
    types = [
        2 if model.IsUnknown(id) else 3 if model.IsControl(id) else 6 if model.IsByte(id) else 1 for id in range(count)
    ]
    return model, {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [model.IdToPiece(id) for id in range(count)],
        "tokenizer.ggml.scores": [model.GetScore(id) for id in range(count)],
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.add_space_prefix": request.param,
    }


@pytest.mark.parametrize("text", [*TEXTS, "the cat sat on the mats", "hello  there   77", " the"])
def test_sentencepiece_vocabularies_give_sentencepieces_ids(text: str, spm: tuple[Any, dict[str, object]]) -> None:
    theirs, metadata = spm
    ours = from_gguf(metadata)
    ids = ours.encode(text, add_special=False, parse_special=False)
    assert ids == theirs.EncodeAsIds(text)
    prefix = " " if metadata["tokenizer.ggml.add_space_prefix"] and text else ""
    assert ours.decode(ids).decode() == prefix + text
    assert ours.encode(text, add_special=True, parse_special=True) == [1, *ids]


def test_sentencepiece_control_text_is_plain_text_unless_parsed(spm: tuple[Any, dict[str, object]]) -> None:
    ours = from_gguf(spm[1])
    assert ours.encode("</s>", add_special=False, parse_special=True) == [2]
    assert 2 not in ours.encode("</s>", add_special=False, parse_special=False)
    assert ours.end_ids == {2}
    assert (ours.bos, ours.eos, ours.adds_bos) == (1, 2, True)


def test_text_after_a_special_token_gets_a_space_like_text_at_the_start(spm: tuple[Any, dict[str, object]]) -> None:
    ours = from_gguf(spm[1])
    the = ours.encode("the", add_special=False, parse_special=True)
    assert ours.encode("the</s>the", add_special=False, parse_special=True) == [*the, 2, *the]


# --- directories --------------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    from stoker.text import gguf_tokenizer

    metadata = _bpe(add_bos_token=True, eos_token_id=12)
    gguf_tokenizer.build(gguf_tokenizer.read(metadata)).save(str(tmp_path / "tokenizer.json"))
    settings = {"bos_token": {"content": "<|ctl|>"}, "eos_token": "<|ctl|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [12, 3]}))
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 4}))
    return tmp_path


def test_a_directory_gives_the_same_tokenizer_as_the_file_it_came_from(directory: Path) -> None:
    theirs, ours = from_gguf(_bpe(add_bos_token=True)), from_source(directory)
    for text in ("ab ab", "<|ctl|>ab<user>", "fade\n"):
        for parse in (True, False):
            for special in (True, False):
                assert ours.encode(text, add_special=special, parse_special=parse) == theirs.encode(
                    text, add_special=special, parse_special=parse
                )
    assert (ours.bos, ours.eos, ours.adds_bos, ours.vocab) == (12, 12, True, 17)
    assert ours.end_ids == {3, 4, 12, 16}
    assert ours.decode([10, 12, 13], special=False) == b" ab<user>"
    assert ours.pieces[:14] == theirs.pieces[:14]


def test_added_tokens_outside_the_merged_vocabulary_keep_their_ids(directory: Path) -> None:
    document = json.loads((directory / "tokenizer.json").read_text())
    for id, text in ((17, "<late>"), (18, "<later>")):
        entry = {**document["added_tokens"][0], "id": id, "content": text, "special": id == 17}
        document["added_tokens"].append(entry)
    (directory / "tokenizer.json").write_text(json.dumps(document))
    ours = from_directory(directory)
    assert ours.encode("ab<late><later>", add_special=False, parse_special=True) == [9, 17, 18]
    plain = ours.encode("ab<later>", add_special=False, parse_special=False)
    assert plain == [9, 18]
    assert 17 not in ours.encode("ab<late>", add_special=False, parse_special=False)


def test_a_sentencepiece_directory_spells_as_sentencepiece(spm: tuple[Any, dict[str, object]], tmp_path: Path) -> None:
    from stoker.text import gguf_tokenizer

    theirs = from_gguf(spm[1])
    gguf_tokenizer.build(gguf_tokenizer.read(spm[1])).save(str(tmp_path / "tokenizer.json"))
    ours = from_directory(tmp_path)
    assert ours.pieces == theirs.pieces
    ids = ours.encode(TEXTS[1], add_special=False, parse_special=False)
    assert ids == theirs.encode(TEXTS[1], add_special=False, parse_special=False)


def test_a_directory_without_a_decoder_spells_as_sentencepiece(directory: Path) -> None:
    document = json.loads((directory / "tokenizer.json").read_text())
    (directory / "tokenizer.json").write_text(json.dumps({**document, "decoder": None}))
    assert from_directory(directory).piece(10) == "Ġab".encode()


def test_a_directory_without_a_usable_tokenizer_is_one_line(tmp_path: Path) -> None:
    for content, says in (
        (None, r"holds no tokenizer\.json"),
        ("{", "is no JSON"),
        ('{"model": null}', "describes no tokenizer"),
        ('{"model": {"type": "Nonesuch"}}', "cannot be read"),
    ):
        if content is not None:
            (tmp_path / "tokenizer.json").write_text(content)
        with pytest.raises(StartError, match=says) as caught:
            from_directory(tmp_path)
        assert "\n" not in str(caught.value)


# --- the real vocabulary ------------------------------------------------------------------------

FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures" / "llama-server-b10622" / "base"


@pytest.fixture(scope="session")
def smollm2(smollm2_path: Path) -> Tokenizer:
    return from_gguf(read_header(smollm2_path).metadata)


@pytest.mark.smollm2
class TestSmolLM2:
    @pytest.mark.parametrize(
        ("text", "ids"),
        [
            ("The capital of France is", [504, 3575, 282, 4649, 314]),
            (
                "12345 hello  world\n\n\tdef f(x): 😀é漢字 don't WON'T 3.14",
                [
                    *(33, 34, 35, 36, 37, 33662, 216, 905, 1116, 197, 1604, 275, 24, 104, 727, 40303, 218, 2756),
                    *(177, 137, 112, 36518, 1326, 982, 408, 2154, 23, 68, 216, 35, 30, 33, 36),
                ],
            ),
            ("hé 😀", [88, 2756, 40303, 218]),
            ("<|im_start|>user\nhi<|im_end|>", [1, 4093, 198, 6004, 2]),
        ],
    )
    def test_ids_equal_llama_servers(self, text: str, ids: list[int], smollm2: Tokenizer) -> None:
        """From the recordings 013 to 016."""
        assert smollm2.encode(text, add_special=True, parse_special=True) == ids
        assert smollm2.decode(ids).decode() == text

    @pytest.mark.parametrize("name", ["013_tokenize", "014_tokenize_unicode", "015_tokenize_pieces"])
    def test_the_recordings_themselves_agree_where_they_are_at_hand(self, name: str, smollm2: Tokenizer) -> None:
        if not FIXTURES.exists():
            pytest.skip("the recordings are not beside this checkout")
        recorded = json.loads((FIXTURES / f"{name}.json").read_text())
        tokens = recorded["response"]["body"]["tokens"]
        expected = [token["id"] if isinstance(token, dict) else token for token in tokens]
        content = recorded["request"]["body"]["content"]
        assert smollm2.encode(content, add_special=False, parse_special=True) == expected
        for token in tokens:
            if isinstance(token, dict):
                piece = token["piece"]
                assert smollm2.piece(token["id"]) == (bytes(piece) if isinstance(piece, list) else piece.encode())

    def test_facts_equal_the_recorded_props(self, smollm2: Tokenizer) -> None:
        assert (smollm2.vocab, smollm2.bos_text, smollm2.eos_text) == (49152, "<|im_start|>", "<|im_end|>")
        assert not smollm2.adds_bos
        assert smollm2.end_ids == {0, 2, 4}
        assert smollm2.decode([1, 4093, 198, 2]) == b"<|im_start|>user\n<|im_end|>"
        assert smollm2.decode([1, 4093, 198, 2], special=False) == b"user\n"

    def test_every_text_comes_back(self, smollm2: Tokenizer) -> None:
        for text in TEXTS:
            ids = smollm2.encode(text, add_special=False, parse_special=False)
            assert smollm2.decode(ids).decode() == text
        assert smollm2.encode("<|im_end|>", add_special=False, parse_special=False) != [2]
