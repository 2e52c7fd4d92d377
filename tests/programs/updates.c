/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Counts what HPCC's MPIRandomAccess sends and takes, from within it (LD_PRELOAD). It receives with four requests at a time, of any
 * rank, looks which of them is done, and ends when each rank has said that it has finished; then it cancels the four. An update
 * that is complete there, but was not looked at, is lost by hpcc itself, and each such one is an error in its table. What was
 * sent and neither taken nor left there would be lost by what carries it.
 *
 * Of each run of updates: `updates: S sent, T taken, L left, sums equal`, to standard error, by rank 0.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define UPDATE	 2 /* hpcc's tag */
#define REQUESTS 16
#define ODD	 0x9e3779b97f4a7c15ull

enum { SENT, TAKEN, LEFT, KINDS };

static struct {
	uint64_t count[KINDS], sum[KINDS];
} all;

static struct {
	const MPI_Request *request;
	const uint64_t *buffer;
} receives[REQUESTS];
static bool cancelled;

static void add(int kind, const uint64_t *update, int count)
{
	all.count[kind] += (uint64_t)count;
	while (count--)
		all.sum[kind] += *update++ * ODD;
}

static const uint64_t *buffer_of(const MPI_Request *request)
{
	for (int i = 0; i < REQUESTS; i++)
		if (receives[i].request == request)
			return receives[i].buffer;
	return NULL;
}

static void took(int kind, const MPI_Request *request, const MPI_Status *status)
{
	const uint64_t *buffer = buffer_of(request);
	int count;

	if (!buffer || status->MPI_TAG != UPDATE)
		return;
	PMPI_Get_count(status, MPI_LONG_LONG_INT, &count);
	add(kind, buffer, count);
}

/* After receives were cancelled all ranks come to a collective operation. */
static void tell(void)
{
	uint64_t sums[2 * KINDS];
	int rank;

	if (!cancelled)
		return;
	cancelled = false;
	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	PMPI_Reduce(&all, sums, 2 * KINDS, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank)
		fprintf(stderr, "updates: %llu sent, %llu taken, %llu left, sums %s\n",
			(unsigned long long)sums[SENT], (unsigned long long)sums[TAKEN],
			(unsigned long long)sums[LEFT],
			sums[KINDS + SENT] == sums[KINDS + TAKEN] + sums[KINDS + LEFT] ? "equal"
										       : "differ");
	memset(&all, 0, sizeof(all));
	memset(receives, 0, sizeof(receives));
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
	      MPI_Request *request)
{
	if (tag == UPDATE && type == MPI_LONG_LONG_INT)
		add(SENT, buffer, count);
	return PMPI_Isend(buffer, count, type, to, tag, comm, request);
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
	      MPI_Request *request)
{
	int i = 0;

	while (i < REQUESTS && receives[i].request && receives[i].request != request)
		i++;
	if (from == MPI_ANY_SOURCE && tag == MPI_ANY_TAG && i < REQUESTS) {
		receives[i].request = request;
		receives[i].buffer = buffer;
	}
	return PMPI_Irecv(buffer, count, type, from, tag, comm, request);
}

int MPI_Testany(int count, MPI_Request requests[], int *which, int *done, MPI_Status *status)
{
	int err = PMPI_Testany(count, requests, which, done, status);

	if (*done && *which != MPI_UNDEFINED)
		took(TAKEN, &requests[*which], status);
	return err;
}

int MPI_Waitany(int count, MPI_Request requests[], int *which, MPI_Status *status)
{
	int err = PMPI_Waitany(count, requests, which, status);

	if (*which != MPI_UNDEFINED)
		took(TAKEN, &requests[*which], status);
	return err;
}

int MPI_Cancel(MPI_Request *request)
{
	cancelled = true;
	return PMPI_Cancel(request);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
	MPI_Status own;
	int err = PMPI_Wait(request, &own), is_cancelled = true;

	if (cancelled)
		PMPI_Test_cancelled(&own, &is_cancelled);
	if (!is_cancelled)
		took(LEFT, request, &own);
	if (status != MPI_STATUS_IGNORE)
		*status = own;
	return err;
}

int MPI_Barrier(MPI_Comm comm)
{
	tell();
	return PMPI_Barrier(comm);
}

int MPI_Reduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, int root,
	       MPI_Comm comm)
{
	tell();
	return PMPI_Reduce(from, to, count, type, op, root, comm);
}

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
		  MPI_Comm comm)
{
	tell();
	return PMPI_Allreduce(from, to, count, type, op, comm);
}
