"""Trains the demo model's byte-level BPE tokenizer (seconds, offline)."""

from __future__ import annotations

from collections.abc import Iterable

from serve_app.demo import shape


def train(text: Iterable[str]) -> tuple[bytes, int]:
    """tokenizer.json and the number of tokens in it.

    Every byte has a token, so any prompt can be encoded whatever the training text was.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=shape.VOCABULARY,
        special_tokens=list(shape.SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(text, trainer)
    return tokenizer.to_str().encode(), tokenizer.get_vocab_size()
