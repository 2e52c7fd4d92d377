/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The contract of transports (contract.h) between memory of the pool, for each transport (instances.c). */
#include "contract.h"

int main(void)
{
	int failed = 0;

	for (unsigned int i = 0; i < CONTRACT_TESTS; i++)
		failed += contract_run_test(&contract_list[i]);
	return failed;
}
