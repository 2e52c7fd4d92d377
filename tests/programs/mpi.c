/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * mpi [ELEMENTS]: every collective and every one-sided operation of MPI among all ranks, with
 * results that depend on rank, root and position; each element is compared. Rank 0 prints how many
 * operations were right. Ends with status 1 at the first wrong one.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_RANKS 64

static int rank, ranks, n = 1000;
static long *in, *out; /* ranks * n elements each */
static int counts[MOST_RANKS], at[MOST_RANKS], bytes_at[MOST_RANKS];
static MPI_Datatype types[MOST_RANKS];
static int right;

static void wait_for(MPI_Request *request)
{
	/* the analyzer knows the calls of MPI 2 only */
	MPI_Wait(request, MPI_STATUS_IGNORE); /* NOLINT(clang-analyzer-optin.mpi.MPI-Checker) */
}

/* What rank `from` has for rank `to` at element i. */
static long value(int from, int to, int i)
{
	return from * 1000003L + to * 7919L + i;
}

static long sum(int upto, int to, int i)
{
	long s = 0;

	for (int r = 0; r < upto; r++)
		s += value(r, to, i);
	return s;
}

static void expect(const char *what, int k, long want)
{
	if (out[k] == want)
		return;
	fprintf(stderr, "rank %d: %s: element %d is %ld, not %ld\n", rank, what, k, out[k], want);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void prepare(void)
{
	for (int to = 0; to < ranks; to++) {
		for (int i = 0; i < n; i++) {
			in[to * n + i] = value(rank, to, i);
			out[to * n + i] = -1;
		}
	}
}

/* The parts of `out` hold what each rank had for `to`. */
static void expect_parts(const char *what, int to)
{
	for (int from = 0; from < ranks; from++) {
		for (int i = 0; i < n; i++)
			expect(what, from * n + i, value(from, to, i));
	}
}

static void expect_sums(const char *what, int upto, int to)
{
	for (int i = 0; i < n; i++)
		expect(what, i, sum(upto, to, i));
}

/* Each collective in its blocking form, then in its other form. */
#define BOTH(check, name, later, ...)                                                              \
	do {                                                                                       \
		MPI_Request request;                                                               \
                                                                                                   \
		prepare();                                                                         \
		MPI_##name(__VA_ARGS__, MPI_COMM_WORLD);                                           \
		check(#name);                                                                      \
		prepare();                                                                         \
		MPI_##later(__VA_ARGS__, MPI_COMM_WORLD, &request);                                \
		wait_for(&request);                                                                \
		check(#later);                                                                     \
		right += 2;                                                                        \
	} while (0)
#define ONE(what)	expect_parts(what, 0)
#define MINE(what)	expect_parts(what, rank)
#define ALL_SUMS(what)	expect_sums(what, ranks, 0)
#define MY_SUMS(what)	expect_sums(what, ranks, rank)
#define UPTO_SUMS(what) expect_sums(what, rank + 1, 0)
#define BELOW(what)                                                                                \
	do {                                                                                       \
		if (rank)                                                                          \
			expect_sums(what, rank, 0);                                                \
	} while (0)
#define FROM_ROOT(what)                                                                            \
	do {                                                                                       \
		for (int i = 0; i < n; i++)                                                        \
			expect(what, i, value(root, rank, i));                                     \
	} while (0)
#define AT_ROOT(what, check)                                                                       \
	do {                                                                                       \
		if (rank == root)                                                                  \
			check(what);                                                               \
	} while (0)
#define ONE_AT_ROOT(what)  AT_ROOT(what, ONE)
#define SUMS_AT_ROOT(what) AT_ROOT(what, ALL_SUMS)
#define SENT(what)                                                                                 \
	do {                                                                                       \
		for (int i = 0; i < n; i++) {                                                      \
			out[i] = in[i];                                                            \
			expect(what, i, value(root, 0, i));                                        \
		}                                                                                  \
	} while (0)

static void rooted(int root)
{
	BOTH(SENT, Bcast, Ibcast, in, n, MPI_LONG, root);
	BOTH(ONE_AT_ROOT, Gather, Igather, in, n, MPI_LONG, out, n, MPI_LONG, root);
	BOTH(ONE_AT_ROOT, Gatherv, Igatherv, in, n, MPI_LONG, out, counts, at, MPI_LONG, root);
	BOTH(FROM_ROOT, Scatter, Iscatter, in, n, MPI_LONG, out, n, MPI_LONG, root);
	BOTH(FROM_ROOT, Scatterv, Iscatterv, in, counts, at, MPI_LONG, out, n, MPI_LONG, root);
	BOTH(SUMS_AT_ROOT, Reduce, Ireduce, in, out, n, MPI_LONG, MPI_SUM, root);
}

static void barriers(void)
{
	MPI_Request request;

	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Ibarrier(MPI_COMM_WORLD, &request);
	wait_for(&request);
	right += 2;
}

static void among_all(void)
{
	BOTH(ONE, Allgather, Iallgather, in, n, MPI_LONG, out, n, MPI_LONG);
	BOTH(ONE, Allgatherv, Iallgatherv, in, n, MPI_LONG, out, counts, at, MPI_LONG);
	BOTH(MINE, Alltoall, Ialltoall, in, n, MPI_LONG, out, n, MPI_LONG);
	BOTH(MINE, Alltoallv, Ialltoallv, in, counts, at, MPI_LONG, out, counts, at, MPI_LONG);
	BOTH(MINE, Alltoallw, Ialltoallw, in, counts, bytes_at, types, out, counts, bytes_at,
	     types);
	BOTH(ALL_SUMS, Allreduce, Iallreduce, in, out, n, MPI_LONG, MPI_SUM);
	BOTH(MY_SUMS, Reduce_scatter, Ireduce_scatter, in, out, counts, MPI_LONG, MPI_SUM);
	BOTH(MY_SUMS, Reduce_scatter_block, Ireduce_scatter_block, in, out, n, MPI_LONG, MPI_SUM);
	BOTH(UPTO_SUMS, Scan, Iscan, in, out, n, MPI_LONG, MPI_SUM);
	BOTH(BELOW, Exscan, Iexscan, in, out, n, MPI_LONG, MPI_SUM);
}

/* ---- One-sided: each rank reaches the next one's window ---- */

static void expect_window(const char *what, const long *window, int i, long want)
{
	out[0] = window[i];
	expect(what, 0, want);
	right++;
}

/* The first half of a window is put into and got from, the second is counted in. */
static void put_and_get(MPI_Win win, const long *window, int next, int before)
{
	MPI_Request request;

	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win);
	MPI_Put(in, n, MPI_LONG, next, 0, n, MPI_LONG, win);
	MPI_Win_flush(next, win);
	MPI_Get(out, n, MPI_LONG, next, 0, n, MPI_LONG, win);
	MPI_Win_unlock(next, win);
	for (int i = 0; i < n; i++)
		expect("Put, Get", i, value(rank, 0, i));
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, win);
	expect_window("Put", window, n - 1, value(before, 0, n - 1));
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Rput(in + n, n, MPI_LONG, next, 0, n, MPI_LONG, win, &request);
	wait_for(&request);
	MPI_Win_flush_all(win);
	MPI_Rget(out, n, MPI_LONG, next, 0, n, MPI_LONG, win, &request);
	wait_for(&request);
	MPI_Win_unlock_all(win);
	for (int i = 0; i < n; i++)
		expect("Rput, Rget", i, value(rank, 1, i));
	right += 3;
}

static void accumulate(MPI_Win win, const long *window)
{
	long one = 1, old = -1, mine = rank, none = -1;
	MPI_Request request;

	MPI_Win_lock_all(0, win);
	for (int r = 0; r < ranks; r++) {
		MPI_Accumulate(&one, 1, MPI_LONG, r, n, 1, MPI_LONG, MPI_SUM, win);
		MPI_Get_accumulate(&one, 1, MPI_LONG, &old, 1, MPI_LONG, r, n + 1, 1, MPI_LONG,
				   MPI_SUM, win);
		MPI_Raccumulate(&one, 1, MPI_LONG, r, n + 2, 1, MPI_LONG, MPI_SUM, win, &request);
		wait_for(&request);
		MPI_Rget_accumulate(&one, 1, MPI_LONG, &old, 1, MPI_LONG, r, n + 3, 1, MPI_LONG,
				    MPI_SUM, win, &request);
		wait_for(&request);
		MPI_Fetch_and_op(&one, &old, MPI_LONG, r, n + 4, MPI_SUM, win);
		MPI_Win_flush_local(r, win);
		MPI_Compare_and_swap(&mine, &none, &old, MPI_LONG, r, n + 5, win);
		MPI_Win_flush_local_all(win);
	}
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
	for (int i = 0; i < 5; i++)
		expect_window("Accumulate and its like", window, n + i, ranks);
	old = window[n + 5];
	MPI_Win_unlock(rank, win);
	if (old < 0 || old >= ranks)
		MPI_Abort(MPI_COMM_WORLD, 1);
	right++;
}

/* The other ways to begin and end an epoch. */
static void epochs(MPI_Win win, const long *window, int next, int before)
{
	MPI_Group all, target, origin;

	MPI_Win_fence(0, win);
	MPI_Put(in, n, MPI_LONG, next, 0, n, MPI_LONG, win);
	MPI_Win_fence(0, win);
	expect_window("Win_fence", window, n - 1, value(before, 0, n - 1));
	MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
	MPI_Comm_group(MPI_COMM_WORLD, &all);
	MPI_Group_incl(all, 1, &next, &target);
	MPI_Group_incl(all, 1, &before, &origin);
	MPI_Win_post(origin, 0, win);
	MPI_Win_start(target, 0, win);
	MPI_Put(in + n, n, MPI_LONG, next, 0, n, MPI_LONG, win);
	MPI_Win_complete(win);
	MPI_Win_wait(win);
	expect_window("Win_post, Win_start", window, n - 1, value(before, 1, n - 1));
	MPI_Group_free(&all);
	MPI_Group_free(&target);
	MPI_Group_free(&origin);
}

static void one_sided(bool allocate)
{
	MPI_Aint bytes = (n + 6) * (MPI_Aint)sizeof(long);
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	long *window, *own = malloc((size_t)bytes);
	MPI_Win win;

	if (allocate)
		MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
	else
		MPI_Win_create(window = own, bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
			       &win);
	for (int i = 0; i < n + 6; i++)
		window[i] = i == n + 5 ? -1 : 0;
	prepare();
	MPI_Barrier(MPI_COMM_WORLD);
	put_and_get(win, window, next, before);
	MPI_Barrier(MPI_COMM_WORLD);
	accumulate(win, window);
	MPI_Barrier(MPI_COMM_WORLD);
	epochs(win, window, next, before);
	MPI_Win_free(&win);
	free(own);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc > 1)
		n = atoi(argv[1]);
	in = calloc((size_t)ranks * (size_t)n, sizeof(*in));
	out = calloc((size_t)ranks * (size_t)n, sizeof(*out));
	if (ranks < 2 || ranks > MOST_RANKS || n < 1 || !in || !out)
		MPI_Abort(MPI_COMM_WORLD, 2);
	for (int r = 0; r < ranks; r++) {
		counts[r] = n;
		at[r] = r * n;
		bytes_at[r] = r * n * (int)sizeof(long);
		types[r] = MPI_LONG;
	}
	for (int root = 0; root < ranks; root++)
		rooted(root);
	among_all();
	barriers();
	one_sided(false);
	one_sided(true);
	if (!rank)
		printf("%d ranks, %d elements: %d right\n", ranks, n, right);
	free(in);
	free(out);
	MPI_Finalize();
	return 0;
}
