/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A team by MPI: mpirun PROGRAM SIZE, as 2x2x2; ranks as on a torus, X first. */
#include <stdio.h>
#include <stdlib.h>

#include <mpi.h>

#include "team_parts.h"

static size_t room;
static char *inbox, *outbox;
static MPI_Request request[TEAM_SLOTS];

void team_begin(struct team *team, int argc, char **argv)
{
	int rank, ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc < 2 ||
	    sscanf(argv[1], "%ux%ux%u", &team->size[0], &team->size[1], &team->size[2]) != 3) {
		fprintf(stderr, "which lattice, as 2x2x2?\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	team_place(team, (unsigned int)rank);
	if ((unsigned int)ranks != team->ranks) {
		fprintf(stderr, "%s has %u nodes, and there are %d ranks\n", argv[1], team->ranks,
			ranks);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
}

void team_open(struct team *team, unsigned int slots, size_t bytes)
{
	(void)team;
	team_count_slots(slots);
	room = bytes;
	inbox = malloc(team_slots * room);
	outbox = malloc(team_slots * room);
	if (!inbox || !outbox)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (unsigned int i = 0; i < team_slots; i++)
		request[i] = MPI_REQUEST_NULL;
}

void team_end(struct team *team)
{
	(void)team;
	MPI_Waitall((int)team_slots, request, MPI_STATUSES_IGNORE);
	MPI_Finalize();
	free(inbox);
	free(outbox);
}

void *team_message(struct team *team, unsigned int n)
{
	(void)team;
	MPI_Wait(&request[n], MPI_STATUS_IGNORE);
	return outbox + n * room;
}

void team_send(struct team *team, unsigned int n, unsigned int rank, unsigned int slot,
	       size_t bytes)
{
	(void)team;
	MPI_Isend(outbox + n * room, (int)bytes, MPI_BYTE, (int)rank, (int)slot, MPI_COMM_WORLD,
		  &request[n]);
}

/* The tag is the slot, so that it does not matter whose it is. */
const void *team_receive(struct team *team, unsigned int slot, size_t *bytes)
{
	MPI_Status status;
	int count;

	(void)team;
	MPI_Recv(inbox + slot * room, (int)room, MPI_BYTE, MPI_ANY_SOURCE, (int)slot,
		 MPI_COMM_WORLD, &status);
	MPI_Get_count(&status, MPI_BYTE, &count);
	*bytes = (size_t)count;
	return inbox + slot * room;
}
