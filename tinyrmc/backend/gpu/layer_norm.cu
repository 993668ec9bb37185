// fused.layer_norm: z = x + bias + residual,  d = z - mean(z),
// scale = 1 / sqrt(mean(d * d) + epsilon),  n = d * scale,  y = n * gain + offset.
//
// x, y (rows, width); bias, gain and offset (width,). Without a bias or a residual, its
// pointer is not read. The residual's rows come in groups of `group`, `stride` floats
// from one group to the next: so the slots of a larger array can be the residual.
// Besides its arguments backward needs mean and scale, one number a row each. It
// computes n again, instead of writing and reading it. The mean is counted from the
// row's first number on, so that a constant row becomes exactly 0.
//
// One warp a row. If it can be read by fours, 16 bytes at once, a thread has the groups
// of four columns lane, lane + 32, ..., and keeps them in registers: up to two groups,
// or up to six. A row that is wider, or begins between two multiples of 16 bytes, is
// read in three sweeps over the columns lane, lane + 32, ...: mean, variance, result.
// The second and the third find it in the cache.

#define NARROW 256  // columns: two groups for each thread of a warp
#define WIDE 768    // six

struct alignas(16) Four { float at[4]; };

__device__ Four& four(float* x) { return *(Four*)x; }
__device__ const Four& four(const float* x) { return *(const Four*)x; }

// A row of z, for one thread of its warp.

struct Row {
    const float *x, *bias, *residual, *gain;
    int width, lane, has_bias, has_residual;

    // x begins with the first row. The residual's rows come in groups, see above.
    __device__ void go_to(int row, int group, int stride)
    {
        x += (size_t)row * width;
        if (has_residual)
            residual += (size_t)(row / group) * stride + (size_t)(row % group) * width;
    }

    __device__ float z(int c) const
    {
        return x[c] + (has_bias ? bias[c] : 0) + (has_residual ? residual[c] : 0);
    }

    __device__ Four four_of_z(int c) const
    {
        Four z = four(x + c);
        if (has_bias) {
            const Four b = four(bias + c);
            for (int i = 0; i < 4; i++) z.at[i] += b.at[i];
        }
        if (has_residual) {
            const Four r = four(residual + c);
            for (int i = 0; i < 4; i++) z.at[i] += r.at[i];
        }
        return z;
    }

    // what(k, c) for each group k of this thread, whose first column is c

    template <int GROUPS, class Do> __device__ void each(Do what) const
    {
#pragma unroll
        for (int k = 0; k < GROUPS; k++) {
            const int c = 4 * (k * WARP + lane);
            if (c < width) what(k, c);
        }
    }

    __device__ bool by_fours(
        const float* a, const float* b, const float* c, int stride) const
    {
        const size_t all = (size_t)x | (size_t)bias | (size_t)residual | (size_t)gain
                           | (size_t)a | (size_t)b | (size_t)c;
        return width <= WIDE && width % 4 == 0 && stride % 4 == 0 && all % 16 == 0;
    }
};

// Both write y, and return the mean and the scale.

struct Stats { float mean, scale; };

template <int GROUPS>
__device__ Stats norm_by_fours(
    const Row row, const float* offset, float* y, float epsilon)
{
    Four z[GROUPS];
    const float first = row.z(0);
    float sum = 0, squares = 0;
    row.each<GROUPS>([&](int k, int c) {
        z[k] = row.four_of_z(c);
        for (int i = 0; i < 4; i++) sum += z[k].at[i] - first;
    });
    const float m = first + warp_sum(sum) / row.width;
    row.each<GROUPS>([&](int k, int c) {
        for (int i = 0; i < 4; i++) squares += (z[k].at[i] - m) * (z[k].at[i] - m);
    });
    const float s = 1 / sqrtf(warp_sum(squares) / row.width + epsilon);
    row.each<GROUPS>([&](int k, int c) {
        const Four a = four(row.gain + c), b = four(offset + c);
        for (int i = 0; i < 4; i++)
            z[k].at[i] = (z[k].at[i] - m) * s * a.at[i] + b.at[i];
        four(y + c) = z[k];
    });
    return {m, s};
}

__device__ Stats norm_in_sweeps(
    const Row row, const float* offset, float* y, float epsilon)
{
    const float first = row.z(0);
    float sum = 0, squares = 0;
    for (int c = row.lane; c < row.width; c += WARP) sum += row.z(c) - first;
    const float m = first + warp_sum(sum) / row.width;
    for (int c = row.lane; c < row.width; c += WARP)
        squares += (row.z(c) - m) * (row.z(c) - m);
    const float s = 1 / sqrtf(warp_sum(squares) / row.width + epsilon);
    for (int c = row.lane; c < row.width; c += WARP)
        y[c] = (row.z(c) - m) * s * row.gain[c] + offset[c];
    return {m, s};
}

extern "C" __global__ void layer_norm_forward(
    const float* __restrict__ x, const float* __restrict__ bias,
    const float* __restrict__ residual, const float* __restrict__ gain,
    const float* __restrict__ offset, float* __restrict__ y,
    float* __restrict__ mean, float* __restrict__ scale,
    int rows, int width, int has_bias, int has_residual, int group, int stride,
    float epsilon)
{
    const int number = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    if (number >= rows) return;  // a whole warp leaves, so that no thread waits for it
    Row row = {x, bias, residual, gain, width, lane, has_bias, has_residual};
    const bool fours = row.by_fours(offset, y, y, stride);
    row.go_to(number, group, stride);
    y += (size_t)number * width;
    Stats stats;
    if (!fours) stats = norm_in_sweeps(row, offset, y, epsilon);
    else if (width <= NARROW) stats = norm_by_fours<2>(row, offset, y, epsilon);
    else stats = norm_by_fours<6>(row, offset, y, epsilon);
    if (lane == 0) {
        mean[number] = stats.mean;
        scale[number] = stats.scale;
    }
}

// With h = g * gain: gx = scale * (h - mean(h) - n * mean(h * n)), which is h without
// its part along the constants and its part along n. gx is the residual's gradient too.
// `relu`: x came out of a ReLU, and gx_below, before it, is gx where x > 0. Otherwise
// gx_below is not written.
// ggain = sum over rows of g * n,  goffset = sum over rows of g.
//
// One warp a row again, by fours or in two sweeps. But a warp goes through several
// rows, and adds up ggain and goffset for the columns of its threads, in shared memory
// that no other warp touches: 2 * width floats a warp. At the end the block adds up its
// warps in order: partial (blocks, 2 * width), each row ggain | goffset. `column_sums`
// adds up the blocks. No atomics: the same bits every time.

struct Out {
    float *gx, *gx_below, *ggain, *goffset;
    int has_below, relu;
};

template <int GROUPS>
__device__ void norm_backward_by_fours(
    const Row row, const Stats stats, const float* g, const Out out)
{
    Four n[GROUPS];
    float sum_h = 0, sum_hn = 0;
    row.each<GROUPS>([&](int k, int c) {
        n[k] = row.four_of_z(c);
        const Four gy = four(g + c), gain = four(row.gain + c);
        Four ggain = four(out.ggain + c), goffset = four(out.goffset + c);
        for (int i = 0; i < 4; i++) {
            n[k].at[i] = (n[k].at[i] - stats.mean) * stats.scale;
            const float h = gy.at[i] * gain.at[i];
            sum_h += h;
            sum_hn += h * n[k].at[i];
            ggain.at[i] += gy.at[i] * n[k].at[i];
            goffset.at[i] += gy.at[i];
        }
        four(out.ggain + c) = ggain;
        four(out.goffset + c) = goffset;
    });
    const float mean_h = warp_sum(sum_h) / row.width;
    const float mean_hn = warp_sum(sum_hn) / row.width;
    row.each<GROUPS>([&](int k, int c) {
        const Four gy = four(g + c), gain = four(row.gain + c);
        Four gx;
        for (int i = 0; i < 4; i++)
            gx.at[i] = stats.scale
                       * (gy.at[i] * gain.at[i] - mean_h - n[k].at[i] * mean_hn);
        four(out.gx + c) = gx;
        if (!out.has_below) return;
        const Four x = four(row.x + c);
        for (int i = 0; i < 4; i++)
            if (out.relu && !(x.at[i] > 0)) gx.at[i] = 0;
        four(out.gx_below + c) = gx;
    });
}

__device__ void norm_backward_in_sweeps(
    const Row row, const Stats stats, const float* g, const Out out)
{
    float sum_h = 0, sum_hn = 0;
    for (int c = row.lane; c < row.width; c += WARP) {
        const float n = (row.z(c) - stats.mean) * stats.scale;
        const float gy = g[c], h = gy * row.gain[c];
        sum_h += h;
        sum_hn += h * n;
        out.ggain[c] += gy * n;
        out.goffset[c] += gy;
    }
    const float mean_h = warp_sum(sum_h) / row.width;
    const float mean_hn = warp_sum(sum_hn) / row.width;
    for (int c = row.lane; c < row.width; c += WARP) {
        const float n = (row.z(c) - stats.mean) * stats.scale;
        const float all = stats.scale * (g[c] * row.gain[c] - mean_h - n * mean_hn);
        out.gx[c] = all;
        if (out.has_below) out.gx_below[c] = out.relu && !(row.x[c] > 0) ? 0 : all;
    }
}

extern "C" __global__ void layer_norm_backward(
    const float* __restrict__ g, const float* __restrict__ x,
    const float* __restrict__ bias, const float* __restrict__ residual,
    const float* __restrict__ gain, const float* __restrict__ mean,
    const float* __restrict__ scale, float* __restrict__ gx,
    float* __restrict__ gx_below, float* __restrict__ partial,
    int rows, int width, int has_bias, int has_residual, int group, int stride,
    int has_below, int relu)
{
    extern __shared__ float shared[];
    const int warps = blockDim.x / WARP, warp = threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    const Row first = {x, bias, residual, gain, width, lane, has_bias, has_residual};
    const bool fours = first.by_fours(g, gx, gx_below, stride);
    float *ggain = shared + warp * 2 * width, *goffset = ggain + width;
    for (int c = threadIdx.x; c < warps * 2 * width; c += blockDim.x) shared[c] = 0;
    __syncthreads();

    for (int r = blockIdx.x * warps + warp; r < rows; r += gridDim.x * warps) {
        const size_t start = (size_t)r * width;
        const Stats stats = {mean[r], scale[r]};
        const Out out = {gx + start, gx_below + start, ggain, goffset, has_below, relu};
        Row row = first;
        row.go_to(r, group, stride);
        if (!fours) norm_backward_in_sweeps(row, stats, g + start, out);
        else if (width <= NARROW) norm_backward_by_fours<2>(row, stats, g + start, out);
        else norm_backward_by_fours<6>(row, stats, g + start, out);
    }

    __syncthreads();
    for (int c = threadIdx.x; c < 2 * width; c += blockDim.x) {
        float sum = 0;
        for (int w = 0; w < warps; w++) sum += shared[w * 2 * width + c];
        partial[(size_t)blockIdx.x * 2 * width + c] = sum;
    }
}
