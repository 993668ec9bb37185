// What a training run counts on the GPU, so that the host need not wait: see
// training/gpu/metrics.py and Trainer._conclude. One thread does all: these are few.

// totals[place] += value, for up to four floats and eight integers; a place below zero
// is left out. Double precision counts to 2^53 without an error.

extern "C" __global__ void add_up(
    double* totals,
    const float* f0, const float* f1, const float* f2, const float* f3,
    const long long* n0, const long long* n1, const long long* n2, const long long* n3,
    const long long* n4, const long long* n5, const long long* n6, const long long* n7,
    int at_f0, int at_f1, int at_f2, int at_f3, int at_n0, int at_n1, int at_n2,
    int at_n3, int at_n4, int at_n5, int at_n6, int at_n7)
{
    const float* floats[] = {f0, f1, f2, f3};
    const int at_floats[] = {at_f0, at_f1, at_f2, at_f3};
    const long long* numbers[] = {n0, n1, n2, n3, n4, n5, n6, n7};
    const int at_numbers[] = {at_n0, at_n1, at_n2, at_n3, at_n4, at_n5, at_n6, at_n7};
    for (int k = 0; k < 4; k++)
        if (at_floats[k] >= 0) totals[at_floats[k]] += *floats[k];
    for (int k = 0; k < 8; k++)
        if (at_numbers[k] >= 0) totals[at_numbers[k]] += *numbers[k];
}

// The pair at `place` becomes (total, count), if that has the larger mean: compared
// crosswise.

extern "C" __global__ void keep_largest(
    double* totals, const long long* total, const long long* count, int place)
{
    double *most = totals + place, *of = most + 1;
    if (*of != 0 && !(*total * *of > *most * *count)) return;
    *most = *total;
    *of = *count;
}

// One more step is done: it was skipped unless `finite`.

extern "C" __global__ void count_step(
    const bool* finite, long long* steps, long long* skipped, long long* first_skipped)
{
    *steps += 1;
    if (*finite) return;
    *skipped += 1;
    if (*first_skipped < 0) *first_skipped = *steps;
}
