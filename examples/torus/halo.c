/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Lattice QCD in small: solves A x = b by conjugate gradients, where A = m^2 - D^2 and D is the staggered Dirac operator
 *
 *   (D v)(s) = 1/2 sum over directions d of  eta_d(s) ( U_d(s) v(s + d) - U_d(s - d)^+ v(s - d) )
 *
 * on a lattice of 8^4 sites, periodic. Each site has a vector of three complex numbers, each link between two a matrix U of SU(3),
 * here a random one. X, Y and Z are spread over the ranks; T is not. Before each D a rank sends the sites of its six faces
 * to its neighbours. The links, and b, are functions of their place alone: so no rank has to be told of them, and the result does not
 * depend on the number of ranks, but for rounding.
 */
#include <complex.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "team.h"

#define L	   8 /* sites of each dimension */
#define COLOURS	   3
#define MASS	   0.5
#define TOLERANCE  1e-10
#define ROUNDS_MAX 1000
#define FACES	   6u
#define DIRECTIONS 4u

typedef double complex vector[COLOURS];
typedef double complex matrix[COLOURS][COLOURS];

static struct team team;
static unsigned int n[4];				    /* sites of a rank, each dimension */
static unsigned int sites;				    /* in all */
static matrix *link_up[DIRECTIONS], *link_down[DIRECTIONS]; /* U_d(s), U_d(s - d) */
static vector *ghost[FACES]; /* the neighbours' faces: above in X, below in X, above in Y … */

/* ---- Random numbers, by place ---- */

/* splitmix64 */
static uint64_t mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* -1 to 1 */
static double random_at(uint64_t place, uint64_t which)
{
	return (double)(mix(mix(place) + which) >> 11) * 0x1p-52 - 1;
}

/* Two random rows that Gram and Schmidt have made orthonormal; the third is their cross product. */
static void random_link(uint64_t place, unsigned int direction, matrix u)
{
	double complex dot = 0;

	for (unsigned int row = 0; row < 2; row++) {
		double norm = 0;

		for (unsigned int i = 0; i < COLOURS; i++) {
			uint64_t which = 100 * direction + 10 * row + 2 * i;

			u[row][i] = random_at(place, which) + I * random_at(place, which + 1);
		}
		if (row == 1) {
			for (unsigned int i = 0; i < COLOURS; i++)
				dot += conj(u[0][i]) * u[1][i];
			for (unsigned int i = 0; i < COLOURS; i++)
				u[1][i] -= dot * u[0][i];
		}
		for (unsigned int i = 0; i < COLOURS; i++)
			norm += creal(u[row][i]) * creal(u[row][i]) +
				cimag(u[row][i]) * cimag(u[row][i]);
		for (unsigned int i = 0; i < COLOURS; i++)
			u[row][i] /= sqrt(norm);
	}
	for (unsigned int i = 0; i < COLOURS; i++)
		u[2][i] = conj(u[0][(i + 1) % 3] * u[1][(i + 2) % 3] -
			       u[0][(i + 2) % 3] * u[1][(i + 1) % 3]);
}

/* ---- Places ---- */

static unsigned int index_of(const unsigned int at[4])
{
	return at[0] + n[0] * (at[1] + n[1] * (at[2] + n[2] * at[3]));
}

static void place_of(unsigned int site, unsigned int at[4])
{
	for (unsigned int d = 0; d < 4; d++) {
		at[d] = site % n[d];
		site /= n[d];
	}
}

/* In the whole lattice; one step down in a direction, or none. */
static uint64_t number_of(const unsigned int at[4], int down)
{
	uint64_t number = 0;

	for (unsigned int d = 4; d--;) {
		unsigned int first = d < 3 ? team.at[d] * n[d] : 0;

		number = number * L + (first + at[d] + L - ((int)d == down)) % L;
	}
	return number;
}

/* Of a face: the place without its dimension. */
static unsigned int index_on_face(const unsigned int at[4], unsigned int dimension)
{
	unsigned int index = 0;

	for (unsigned int d = 4; d--;)
		if (d != dimension)
			index = index * n[d] + at[d];
	return index;
}

static double eta(const unsigned int at[4], unsigned int direction)
{
	unsigned int sum = 0;

	for (unsigned int d = 0; d < direction; d++)
		sum += (d < 3 ? team.at[d] * n[d] : 0) + at[d];
	return sum % 2 ? -1 : 1;
}

/* ---- Vectors ---- */

static vector *make_vector(void)
{
	vector *v = calloc(sites, sizeof(*v));

	if (!v)
		exit(1);
	return v;
}

/* The real part of the product, over all ranks. */
static double dot(vector *a, vector *b)
{
	double sum = 0;

	for (unsigned int s = 0; s < sites; s++)
		for (unsigned int c = 0; c < COLOURS; c++)
			sum += creal(conj(a[s][c]) * b[s][c]);
	return team_sum(&team, sum);
}

/* y = a x + b y */
static void combine(double a, vector *x, double b, vector *y)
{
	for (unsigned int s = 0; s < sites; s++)
		for (unsigned int c = 0; c < COLOURS; c++)
			y[s][c] = a * x[s][c] + b * y[s][c];
}

/* ---- The operator ---- */

/* Slot 2 d has the face of the neighbour above in dimension d, slot 2 d + 1 that of the one below. */
static void send_faces(vector *v)
{
	for (unsigned int f = 0; f < FACES; f++) {
		unsigned int d = f / 2, edge = f % 2 ? n[d] - 1 : 0, at[4];
		vector *face = team_message(&team, f);

		for (unsigned int s = 0; s < sites; s++) {
			place_of(s, at);
			if (at[d] == edge)
				memcpy(face[index_on_face(at, d)], v[s], sizeof(*v));
		}
		/* our lowest sites are above the one below */
		team_send(&team, f, team_neighbour(&team, d, f % 2 ? 1 : -1), f,
			  sites / n[d] * sizeof(*v));
	}
}

static void receive_faces(void)
{
	for (unsigned int f = 0; f < FACES; f++) {
		size_t bytes;
		const void *face = team_receive(&team, f, &bytes);

		memcpy(ghost[f], face, bytes);
	}
}

static const double complex *above(vector *v, const unsigned int at[4], unsigned int d)
{
	unsigned int there[4];

	memcpy(there, at, sizeof(there));
	there[d] = (at[d] + 1) % n[d];
	return d < 3 && !there[d] ? ghost[2 * d][index_on_face(at, d)] : v[index_of(there)];
}

static const double complex *below(vector *v, const unsigned int at[4], unsigned int d)
{
	unsigned int there[4];

	memcpy(there, at, sizeof(there));
	there[d] = (at[d] + n[d] - 1) % n[d];
	return d < 3 && !at[d] ? ghost[2 * d + 1][index_on_face(at, d)] : v[index_of(there)];
}

/* out = D v */
static void apply_d(vector *v, vector *out)
{
	unsigned int at[4];

	send_faces(v);
	receive_faces();
	for (unsigned int s = 0; s < sites; s++) {
		vector sum = {0};

		place_of(s, at);
		for (unsigned int d = 0; d < DIRECTIONS; d++) {
			const double complex *up = above(v, at, d), *down = below(v, at, d);
			double half = 0.5 * eta(at, d);

			for (unsigned int i = 0; i < COLOURS; i++)
				for (unsigned int j = 0; j < COLOURS; j++)
					sum[i] += half * (link_up[d][s][i][j] * up[j] -
							  conj(link_down[d][s][j][i]) * down[j]);
		}
		memcpy(out[s], sum, sizeof(sum));
	}
}

/* out = (m^2 - D^2) v: D is antihermitian, so that this is positive. */
static void apply_a(vector *v, vector *out)
{
	static vector *between;

	if (!between)
		between = make_vector();
	apply_d(v, between);
	apply_d(between, out);
	combine(MASS * MASS, v, -1, out);
}

/* ---- Conjugate gradients: x = 0 at first. How many rounds. ---- */

static unsigned int solve(vector *x, vector *b)
{
	vector *r = make_vector(), *p = make_vector(), *ap = make_vector();
	double rr = dot(b, b), enough = TOLERANCE * TOLERANCE * rr, before;
	unsigned int rounds;

	combine(1, b, 0, r);
	combine(1, b, 0, p);
	for (rounds = 0; rr > enough && rounds < ROUNDS_MAX; rounds++) {
		double alpha;

		apply_a(p, ap);
		alpha = rr / dot(p, ap);
		combine(alpha, p, 1, x);
		combine(-alpha, ap, 1, r);
		before = rr;
		rr = dot(r, r);
		combine(1, r, rr / before, p);
	}
	free(r);
	free(p);
	free(ap);
	return rounds;
}

/* ---- */

static void make_links(void)
{
	unsigned int at[4];

	for (unsigned int d = 0; d < DIRECTIONS; d++) {
		link_up[d] = calloc(sites, sizeof(matrix));
		link_down[d] = calloc(sites, sizeof(matrix));
		if (!link_up[d] || !link_down[d])
			exit(1);
		for (unsigned int s = 0; s < sites; s++) {
			place_of(s, at);
			random_link(number_of(at, -1), d, link_up[d][s]);
			random_link(number_of(at, (int)d), d, link_down[d][s]);
		}
	}
}

static void fill(vector *v, uint64_t seed)
{
	unsigned int at[4];

	for (unsigned int s = 0; s < sites; s++) {
		place_of(s, at);
		for (unsigned int c = 0; c < COLOURS; c++)
			v[s][c] = random_at(number_of(at, -1), seed + 2 * c) +
				  I * random_at(number_of(at, -1), seed + 2 * c + 1);
	}
}

/* Splits the lattice; the largest face in sites. */
static unsigned int split(void)
{
	unsigned int largest = 0;

	sites = n[3] = L;
	for (unsigned int d = 0; d < 3; d++) {
		if (L % team.size[d]) {
			fprintf(stderr, "%u nodes do not share %d sites\n", team.size[d], L);
			exit(1);
		}
		n[d] = L / team.size[d];
		sites *= n[d];
	}
	for (unsigned int f = 0; f < FACES; f++) {
		unsigned int face = sites / n[f / 2];

		ghost[f] = calloc(face, sizeof(vector));
		if (!ghost[f])
			exit(1);
		largest = face > largest ? face : largest;
	}
	return largest;
}

int main(int argc, char **argv)
{
	vector *x, *b, *rest;
	double residual, norm, shadow, begun, took;
	unsigned int rounds;

	team_begin(&team, argc, argv);
	team_open(&team, FACES, split() * sizeof(vector));
	make_links();
	x = make_vector();
	b = make_vector();
	rest = make_vector();
	fill(b, 1000);
	begun = team_clock();
	rounds = solve(x, b);
	took = team_clock() - begun;
	apply_a(x, rest);
	combine(1, b, -1, rest);
	residual = sqrt(dot(rest, rest) / dot(b, b));
	/* any wrong number in x would change these two */
	fill(rest, 2000);
	norm = dot(x, x);
	shadow = dot(rest, x);
	if (!team.rank) {
		printf("%u iterations, residual %.1e, |x|^2 = %.12e, <random, x> = %.12e\n", rounds,
		       residual, norm, shadow);
		printf("%.1f ms an iteration on %u ranks\n", 1e3 * took / rounds, team.ranks);
	}
	team_end(&team);
	return residual > TOLERANCE;
}
