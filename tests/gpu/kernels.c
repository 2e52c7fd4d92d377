/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Kernels of the tests: CUDA's compiler takes them (-x cu), and a C compiler for the soft GPU. */
#include "cuda/device.h"

struct fill_args {
	uint64_t at, count, value;
};

/* Every word of `at` becomes the sum of the value and the word's number. */
WEFT_KERNEL(fill, fill_args)
{
	uint64_t *words = weft_at(uint64_t, args.at, args.count);
	uint64_t step = (uint64_t)weft_blocks() * weft_warps() * weft_lanes();
	uint64_t self =
		((uint64_t)weft_block() * weft_warps() + weft_warp()) * weft_lanes() + weft_lane();

	for (uint64_t i = self; i < args.count; i += step)
		words[i] = args.value + i;
}

struct add_args {
	uint64_t word, times;
};

/* Every warp adds one, so many times. */
WEFT_KERNEL(add, add_args)
{
	uint64_t *word = weft_at(uint64_t, args.word, 1);

	if (!weft_lane())
		for (uint64_t i = 0; i < args.times; i++)
			weft_add(word, 1);
}

struct poll_args {
	uint64_t words, count, answer, rounds;
};

/* Waits for round after round: when the last word has its number, the others must have it, too.
 * Writes the number of the round that it has seen, and behind it how many words had not come. */
WEFT_KERNEL(poll, poll_args)
{
	uint64_t *words = weft_at(uint64_t, args.words, args.count);
	uint64_t *answer = weft_at(uint64_t, args.answer, 2);
	uint64_t torn = 0;

	if (weft_lane() || weft_warp() || weft_block())
		return;
	for (uint64_t round = 1; round <= args.rounds; round++) {
		while (weft_acquire(&words[args.count - 1]) != round)
			;
		for (uint64_t i = 0; i + 1 < args.count; i++)
			torn += weft_acquire(&words[i]) != round;
		answer[1] = torn;
		weft_release(&answer[0], round);
	}
}

struct stay_args {
	uint64_t word, answer;
};

/* Says that it runs, and goes on until the word is 1. */
WEFT_KERNEL(stay, stay_args)
{
	uint64_t *word = weft_at(uint64_t, args.word, 1);

	if (weft_lane() || weft_warp() || weft_block())
		return;
	weft_release(weft_at(uint64_t, args.answer, 1), 1);
	while (weft_acquire(word) != 1)
		weft_pause();
}

struct watch_args {
	uint64_t words, count, answer, rounds, values, line_words, step;
};

/*
 * As poll, but by all lanes of a warp, each of which has a part of the words: at answer[lane] it says which round it has seen, 32 words
 * behind that how many words had not come. A round's number is 1 + the rest of that by `values`; every `step`th word is looked at; or,
 * with line_words, each line of so many when its last word has come.
 */
WEFT_KERNEL(watch, watch_args)
{
	uint64_t *words = weft_at(uint64_t, args.words, args.count);
	uint64_t *answer = weft_at(uint64_t, args.answer, 64) + weft_lane();
	uint64_t line = args.line_words ? args.line_words : args.count;
	uint64_t late = 0;

	if (weft_warp() || weft_block())
		return;
	for (uint64_t round = 1; round <= args.rounds; round++) {
		uint64_t value = 1 + round % args.values;

		for (uint64_t end = line; end <= args.count; end += line) {
			while (weft_acquire(&words[end - 1]) != value)
				;
			for (uint64_t i = end - line + weft_lane() * args.step; i + 1 < end;
			     i += weft_lanes() * args.step)
				late += weft_acquire(&words[i]) != value;
		}
		answer[32] = late;
		weft_release(&answer[0], round);
	}
}

struct follow_args {
	uint64_t memory, words, buffers, buffer_words, datagram_words, answer, rounds;
};

/* Waits for the word of one buffer of a list after the other, of which each generation is as long as the buffer. All
 * 64-bit words of a datagram are its number. Writes how many buffers it has seen, and behind it how many words were wrong. */
WEFT_KERNEL(follow, follow_args)
{
	uint64_t *memory = weft_at(uint64_t, args.memory, args.buffers * args.buffer_words);
	uint64_t *words = weft_at(uint64_t, args.words, args.buffers);
	uint64_t *answer = weft_at(uint64_t, args.answer, 2);
	uint64_t wrong = 0;

	if (weft_lane() || weft_warp() || weft_block())
		return;
	for (uint64_t round = 0; round < args.rounds; round++) {
		uint64_t buffer = round % args.buffers, first = buffer * args.buffer_words;
		uint64_t number = round * (args.buffer_words / args.datagram_words);

		while (weft_acquire(&words[buffer]) >> 32 != round / args.buffers + 1)
			;
		for (uint64_t i = 0; i < args.buffer_words; i++)
			wrong += weft_acquire(&memory[first + i]) !=
				 number + i / args.datagram_words;
		answer[1] = wrong;
		weft_release(&answer[0], round + 1);
	}
}
