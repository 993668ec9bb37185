"""An agent of another library trains on a registered world.

Skipped unless that library is installed. It brings PyTorch, so no extra of this project
has it:

    pip install -e '.[rl]' stable-baselines3 sb3-contrib
    python -m pytest tests/test_gym_client.py
"""

import numpy as np
import pytest

import tinyrmc.environments  # noqa: F401 (registers the worlds)

pytest.importorskip("stable_baselines3")
contrib = pytest.importorskip("sb3_contrib")

pytestmark = pytest.mark.filterwarnings("default")  # what others' libraries warn of


def test_a_recurrent_ppo_trains_on_box_world():
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    easy = dict(room=6, solution_length=1, distractors=0, limit=40, levels=2000)
    env = make_vec_env("tinyrmc/BoxWorld-v0", n_envs=16, seed=0, env_kwargs=easy)
    agent = contrib.RecurrentPPO(
        "MlpLstmPolicy",
        env,
        n_steps=64,
        n_epochs=4,
        batch_size=256,
        learning_rate=2e-3,
        policy_kwargs=dict(lstm_hidden_size=32),
        seed=0,
        device="cpu",
    )
    before = [x.detach().clone() for x in agent.policy.parameters()]
    agent.learn(4096)
    after = [x.detach() for x in agent.policy.parameters()]
    assert agent.num_timesteps >= 4096
    assert all(bool(x.isfinite().all()) for x in after)
    assert any(bool((x != y).any()) for x, y in zip(before, after, strict=True))
    mean, _ = evaluate_policy(agent, env, n_eval_episodes=32, deterministic=False)
    assert 0 <= mean <= 11 and np.isfinite(mean)
