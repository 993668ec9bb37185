// optim.Adam._update:
//     m = beta1 * m + (1 - beta1) * g,  v = beta2 * v + (1 - beta2) * g * g,
//     data -= rate * m^ / (sqrt(v^) + epsilon)
//     with  m^ = m / (1 - beta1^t),  v^ = v / (1 - beta2^t).
//
// All parameters are one flat array of `count`; one thread an element. The rate, t
// (`updates`, which counts this one) and whether to apply the step at all (`finite`)
// are read from the device, so the host waits for nothing. rest1 and rest2 are 1 -
// beta1 and 1 - beta2, subtracted in double precision. 1 - beta^t is written as
// -expm1(t * log1p(-rest)), which keeps all digits, where 1 - pow(beta, t) would lose
// four.

extern "C" __global__ void adam(
    float* data, const float* gradient, float* first_moment, float* second_moment,
    const float* rate, const bool* finite, const float* updates,
    int count, float beta1, float rest1, float beta2, float rest2, float epsilon)
{
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= count || !*finite) return;
    const float t = fmaxf(*updates, 1), g = gradient[k];
    const float m = first_moment[k] = beta1 * first_moment[k] + rest1 * g;
    const float v = second_moment[k] = beta2 * second_moment[k] + rest2 * g * g;
    const float correction1 = -expm1f(t * log1pf(-rest1));
    const float correction2 = -expm1f(t * log1pf(-rest2));
    data[k] -= *rate * (m / correction1) / (sqrtf(v / correction2) + epsilon);
}
