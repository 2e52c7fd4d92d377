/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/ape/b8b10.h"

#define NONE WEFT_APE_NO_VALUE

/* The codes of five data bits as they are sent, the first bit left, for a running disparity of −. */
static const char six[32][7] = {
	"100111", "011101", "101101", "110001", "110101", "101001", "011001", "111000",
	"111001", "100101", "010101", "110100", "001101", "101100", "011100", "010111",
	"011011", "100011", "010011", "110010", "001011", "101010", "011010", "111010",
	"110011", "100110", "010110", "110110", "001110", "101110", "011110", "101011",
};
static const char four[8][5] = {"1011", "1001", "0101", "1100", "1101", "1010", "0110", "1110"};
static const struct {
	uint16_t value;
	char bits[11];
} controls[12] = {
	{WEFT_APE_K(28, 0), "0011110100"}, {WEFT_APE_K(28, 1), "0011111001"},
	{WEFT_APE_K(28, 2), "0011110101"}, {WEFT_APE_K(28, 3), "0011110011"},
	{WEFT_APE_K(28, 4), "0011110010"}, {WEFT_APE_K(28, 5), "0011111010"},
	{WEFT_APE_K(28, 6), "0011110110"}, {WEFT_APE_K(28, 7), "0011111000"},
	{WEFT_APE_K(23, 7), "1110101000"}, {WEFT_APE_K(27, 7), "1101101000"},
	{WEFT_APE_K(29, 7), "1011101000"}, {WEFT_APE_K(30, 7), "0111101000"},
};

static unsigned int bits_of(const char *bits, unsigned int count)
{
	unsigned int value = 0;

	for (unsigned int i = 0; i < count; i++)
		value |= (unsigned int)(bits[i] == '1') << i;
	return value;
}

static unsigned int ones(unsigned int bits)
{
	unsigned int count = 0;

	for (; bits; bits &= bits - 1)
		count++;
	return count;
}

static bool balanced(unsigned int bits, unsigned int count)
{
	return 2 * ones(bits) == count;
}

/* The symbol of a byte at that disparity: 111000 and 1100 have another form at +, too, although they are balanced. */
static unsigned int byte_code(unsigned int byte, bool plus)
{
	unsigned int x = byte & 31, y = byte >> 5;
	unsigned int first = bits_of(six[x], 6), second;

	if (plus && (!balanced(first, 6) || x == 7))
		first ^= 63;
	plus ^= !balanced(first, 6);
	second = bits_of(four[y], 4);
	if (y == 7 && !plus && (x == 17 || x == 18 || x == 20))
		second = bits_of("0111", 4);
	else if (y == 7 && plus && (x == 11 || x == 13 || x == 14))
		second = bits_of("1000", 4);
	else if (plus && (!balanced(second, 4) || y == 3))
		second ^= 15;
	return first | second << 6;
}

void weft_ape_b8b10_init(struct weft_ape_b8b10 *t)
{
	for (unsigned int plus = 0; plus < 2; plus++) {
		for (unsigned int i = 0; i < 1024; i++)
			t->value[plus][i] = NONE;
		for (unsigned int i = 0; i < WEFT_APE_VALUES; i++)
			t->code[plus][i] = i < 256 ? byte_code(i, plus) : NONE;
		for (unsigned int i = 0; i < 12; i++)
			t->code[plus][controls[i].value] =
				bits_of(controls[i].bits, 10) ^ (plus ? 1023 : 0);
		for (unsigned int i = 0; i < WEFT_APE_VALUES; i++)
			if (t->code[plus][i] != NONE)
				t->value[plus][t->code[plus][i]] = i;
	}
}

uint16_t weft_ape_b8b10_encode(const struct weft_ape_b8b10 *t, unsigned int value, bool *plus)
{
	uint16_t symbol = t->code[*plus][value];

	*plus ^= !balanced(symbol, 10);
	return symbol;
}

enum weft_ape_symbol weft_ape_b8b10_decode(const struct weft_ape_b8b10 *t, uint16_t symbol,
					   bool *plus, uint16_t *value)
{
	enum weft_ape_symbol kind = WEFT_APE_SYMBOL_GOOD;

	*value = t->value[*plus][symbol];
	if (*value == NONE) {
		*value = t->value[!*plus][symbol];
		kind = *value == NONE ? WEFT_APE_SYMBOL_BAD : WEFT_APE_SYMBOL_DISPARITY;
	}
	if (!balanced(symbol, 10))
		*plus = ones(symbol) > 5;
	else if (kind == WEFT_APE_SYMBOL_DISPARITY)
		*plus = !*plus;
	return kind;
}
