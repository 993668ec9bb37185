r"""The equations of the code as LaTeX, by the name of what computes them.

The reference shows each with the docstring of its function, which says the same in
plain text. Numbers are the paper's (Santoro et al. 2018).
"""

FORMULAS: dict[str, tuple[str, ...]] = {
    # The paper
    "tinyrmc.equations.softmax": (
        r"\mathrm{softmax}(x)_j = \frac{e^{x_j}}{\sum_k e^{x_k}}",
    ),
    "tinyrmc.equations.attention_weights": (
        r"\mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right)",
    ),
    "tinyrmc.equations.attention": (
        r"A(Q, K, V) = \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V",
        r"A_\theta(M) = \mathrm{softmax}"
        r"\left(\frac{M W^q \, (M W^k)^\top}{\sqrt{d_k}}\right) M W^v \tag{1}",
    ),
    "tinyrmc.equations.append_rows": (
        r"[M; x] = \begin{pmatrix} M \\ x \end{pmatrix}",
    ),
    "tinyrmc.equations.multi_head_attention": (
        r"\widetilde{M} = \mathrm{softmax}"
        r"\left(\frac{M W^q \, ([M; x] W^k)^\top}{\sqrt{d_k}}\right)"
        r" [M; x] W^v \tag{2}",
    ),
    "tinyrmc.equations.sigmoid": (
        r"\sigma(x) = \frac{1}{1 + e^{-x}}"
        r" = \tfrac12 \left(1 + \tanh \tfrac{x}{2}\right)",
    ),
    "tinyrmc.equations.layer_norm": (
        r"y_j = \mathrm{gain}_j \, \frac{x_j - \mu}{\sqrt{v + \varepsilon}}"
        r" + \mathrm{offset}_j, \qquad "
        r"\mu = \frac1F \sum_k x_k, \quad v = \frac1F \sum_k (x_k - \mu)^2",
    ),
    "tinyrmc.equations.mlp": (
        r"z \leftarrow \max(0, \, z W_l + b_l) \;\text{ for } l < L, \qquad "
        r"z_L = z W_L + b_L",
    ),
    "tinyrmc.equations.g_psi": (
        r"g_\psi(z) = \mathrm{layer\_norm}(\mathrm{MLP}(z) + z)",
    ),
    "tinyrmc.equations.gate": (
        r"f_{i,t} = W^f x_t + U^f h_{i,t-1} + b^f \tag{4}",
        r"i_{i,t} = W^i x_t + U^i h_{i,t-1} + b^i \tag{5}",
        r"o_{i,t} = W^o x_t + U^o h_{i,t-1} + b^o \tag{6}",
    ),
    "tinyrmc.equations.update_memory": (
        r"m_{i,t} = \sigma(f_{i,t} + \tilde b^f) \circ m_{i,t-1}"
        r" + \sigma(i_{i,t}) \circ g_\psi(\widetilde{m}_{i,t}) \tag{7}",
    ),
    "tinyrmc.equations.output": (
        r"h_{i,t} = \sigma(o_{i,t}) \circ \tanh(m_{i,t}) \tag{8}",
    ),
    "tinyrmc.equations.step": (
        r"s_{i,t} = (h_{i,t-1}, m_{i,t-1}) \tag{3}",
        r"s_{i,t+1} = (m_{i,t}, h_{i,t}) \tag{9}",
    ),
    "tinyrmc.cores.relational.RelationalMemory": (
        r"\begin{aligned} x' &= x W + b \\ Z &= [M; x'] \\"
        r" Z &\leftarrow \mathrm{norm}"
        r"(Z + \mathrm{attention}(\mathrm{norm}(Z W_{qkv} + b_{qkv}))) \\"
        r" Z &\leftarrow \mathrm{norm}(Z + \mathrm{MLP}(Z)) \\"
        r" (i, f) &= \sigma(x' W_x + \tanh(M) W_m + b_g) \\"
        r" M' &= i \circ \tanh(Z_{1..N}) + f \circ M \end{aligned}",
    ),
    # The engine
    "tinyrmc.autograd.engine.Primitive": (
        r"y = f(x), \qquad "
        r"\bar x = \left(\frac{\partial y}{\partial x}\right)^{\!\top} \bar y, \qquad "
        r"\bar y = \frac{\partial\,\mathrm{loss}}{\partial y}",
    ),
    "tinyrmc.autograd.gradcheck": (
        r"f'(x)\,v = \frac{\mathrm{Im}\, f(x + i h v)}{h} + O(h^2)",
    ),
    "tinyrmc.autograd.primitives.sigmoid": (
        r"\sigma(x) = \frac{1}{1 + e^{-x}}, \qquad \sigma' = \sigma \, (1 - \sigma)",
    ),
    "tinyrmc.autograd.primitives.softplus": (
        r"\mathrm{softplus}(x) = \log(1 + e^x), \qquad \mathrm{softplus}' = \sigma",
    ),
    "tinyrmc.autograd.primitives.softmax": (
        r"y_j = \frac{e^{x_j}}{\sum_k e^{x_k}}, \qquad "
        r"\bar x_j = y_j \Big(\bar y_j - \sum_k \bar y_k y_k\Big)",
    ),
    "tinyrmc.autograd.primitives.matmul": (
        r"C = A B, \qquad \bar A = \bar C B^\top, \qquad \bar B = A^\top \bar C",
    ),
    # Fused operations, with the derivatives worked out by hand
    "tinyrmc.fused.layers.linear": (
        r"y = x W + b, \qquad \bar x = \bar y W^\top, \qquad "
        r"\bar W = x^\top \bar y, \qquad "
        r"\bar b = \textstyle\sum_{\text{rows}} \bar y",
    ),
    "tinyrmc.fused.layers.layer_norm": (
        r"n = \frac{z - \mathrm{mean}(z)}{\sqrt{\mathrm{var}(z) + \varepsilon}}, "
        r"\qquad z = x + \mathrm{residual}, "
        r"\qquad y = n \circ \mathrm{gain} + \mathrm{offset}",
        r"\bar z = \frac"
        r"{\bar n - \mathrm{mean}(\bar n) - n \circ \mathrm{mean}(\bar n \circ n)}"
        r"{\sqrt{\mathrm{var}(z) + \varepsilon}}, "
        r"\qquad \bar n = \bar y \circ \mathrm{gain}",
    ),
    "tinyrmc.fused.relational.attention": (
        r"A = \mathrm{softmax}\left(\frac{q k^\top}{\sqrt{K}}\right), \qquad y = A v",
        r"S = \frac"
        r"{A \circ (\bar y v^\top - \mathrm{rowsum}(\bar y v^\top \circ A))}"
        r"{\sqrt{K}}, \qquad "
        r"\bar q = S k, \quad \bar k = S^\top q, \quad \bar v = A^\top \bar y",
    ),
    "tinyrmc.fused.relational.rmc_gates": (
        r"M' = \sigma(z_i + b_i) \circ \tanh(c) + \sigma(z_f + b_f) \circ M",
    ),
    "tinyrmc.fused.recurrent.lstm_gates": (
        r"c' = \sigma(f + b_f) \circ c + \sigma(i) \circ \tanh(j), \qquad "
        r"h' = \sigma(o) \circ \tanh(c')",
    ),
    "tinyrmc.fused.hops.memory_hop": (
        r"p = \mathrm{softmax}\big(u A^\top x^\top\big), \qquad y = (p\, x)\, C",
    ),
    "tinyrmc.fused.addressing.content_weights": (
        r"w_{hn} = \mathrm{softmax}_n\big(\beta_h \cos(k_h, m_n)\big), \qquad "
        r"\cos(k, m) = \frac{k \cdot m}{|k|\,|m| + \varepsilon}",
    ),
    "tinyrmc.fused.addressing.erase_and_write": (
        r"M' = M \circ \prod_h \left(1 - w_h e_h^\top\right) + \sum_h w_h v_h^\top",
    ),
    "tinyrmc.fused.addressing.temporal_links": (
        r"L'_{ij} = (1 - w_i - w_j) L_{ij} + w_i p_j \quad (i \ne j), \qquad "
        r"L'_{ii} = 0",
    ),
    "tinyrmc.fused.losses.softmax_cross_entropy": (
        r"\ell = \log \sum_k e^{x_k} - x_t, \qquad "
        r"\frac{\partial \ell}{\partial x_j} = \mathrm{softmax}(x)_j - [j = t]",
    ),
    "tinyrmc.fused.losses.categorical": (
        r"\frac{\partial \log \pi(a)}{\partial x_j} = [j = a] - \pi_j, \qquad "
        r"\frac{\partial H}{\partial x_j} = -\pi_j (\log \pi_j + H)",
    ),
    "tinyrmc.fused.convolution.conv2d": (
        r"y_{ij} = \textstyle\sum_{uv} x_{i+u,\,j+v}\, W_{uv} + b",
    ),
    "tinyrmc.fused.losses.linear_cross_entropy": (
        r"\ell = \log \sum_k e^{x \cdot w_k + b_k} - (x \cdot w_t + b_t)",
    ),
    # Baselines
    "tinyrmc.cores.lstm.LSTM": (
        r"c' = \sigma(f + b_f) \circ c + \sigma(i) \circ \tanh(j), \qquad "
        r"h' = \sigma(o) \circ \tanh(c'), \qquad "
        r"[i\,j\,f\,o] = [x\,h]\,W + b",
    ),
    "tinyrmc.cores.lstm.ConvLSTM": (
        r"c' = \sigma(f + b_f) \circ c + \sigma(i) \circ \tanh(j), \qquad "
        r"h' = \sigma(o) \circ \tanh(c'), \qquad "
        r"[i\,j\,f\,o] = [x\,h] * W + b",
    ),
    "tinyrmc.training.rl.vtrace": (
        r"\rho_t = \frac{\pi(a_t)}{\mu(a_t)}, \qquad "
        r"\delta_t = \min(\bar\rho, \rho_t)\,(r_t + g_t V_{t+1} - V_t)",
        r"v_t - V_t = \delta_t + g_t\, \lambda \min(1, \rho_t)\,"
        r"(v_{t+1} - V_{t+1})",
    ),
    "tinyrmc.cores.dnc.update_usage": (
        r"u' = \Big(u + (1 - u) \circ \big(1 - \prod_h (1 - w_h)\big)\Big)"
        r" \circ \prod_r (1 - f_r w_r)",
    ),
    "tinyrmc.cores.dnc.allocation": (
        r"a_{(k)} = (1 - u_{(k)}) \prod_{j<k} u_{(j)}, \qquad "
        r"u_{(1)} \le u_{(2)} \le \dots",
    ),
    "tinyrmc.cores.dnc.follow_links": (r"b = L^\top w, \qquad f = L w",),
    "tinyrmc.cores.entnet.EntNet": (
        r"g_j = \sigma(s \cdot h_j + s \cdot w_j), \qquad "
        r"h_j \leftarrow \mathrm{normalise}"
        r"\big(h_j + g_j \, \phi(h_j U + w_j V + s W)\big)",
        r"p_j = \mathrm{softmax}_j(s \cdot h_j), \qquad "
        r"y = \phi\Big(s + \big(\textstyle\sum_j p_j h_j\big) H\Big)",
    ),
    "tinyrmc.cores.entnet.EntNetBank": (
        r"z_j = x W + h_j U + b_j, \qquad y = \sum_j h_j",
    ),
    "tinyrmc.cores.memn2n.MemN2N": (
        r"p_i = \mathrm{softmax}_i(u \cdot m_i), \qquad "
        r"u \leftarrow u + \textstyle\sum_i p_i c_i",
    ),
    "tinyrmc.cores.memn2n.TextMemN2N": (
        r"p_i = \mathrm{softmax}_i(u \cdot m_i), \qquad "
        r"u \leftarrow u H + \textstyle\sum_i p_i c_i",
    ),
    # Optimizers: g the gradient, eta the learning rate
    "tinyrmc.optim.SGD": (
        r"v \leftarrow \mu v + g, \qquad \theta \leftarrow \theta - \eta v",
    ),
    "tinyrmc.optim.RMSProp": (
        r"v \leftarrow \rho v + (1 - \rho) g^2, \qquad "
        r"\theta \leftarrow \theta - \eta \, \frac{g}{\sqrt{v + \varepsilon}}",
    ),
    "tinyrmc.optim.Adam": (
        r"m \leftarrow \beta_1 m + (1 - \beta_1) g, \qquad "
        r"v \leftarrow \beta_2 v + (1 - \beta_2) g^2",
        r"\theta \leftarrow \theta"
        r" - \eta \, \frac{\hat m}{\sqrt{\hat v} + \varepsilon}, \qquad "
        r"\hat m = \frac{m}{1 - \beta_1^t}, \quad \hat v = \frac{v}{1 - \beta_2^t}",
    ),
}
